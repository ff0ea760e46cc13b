"""The Debian side of a lock: a suite and package names -> pinned, hashed packages."""
