"""The Python side of a lock: requirements -> pinned, hashed wheels."""
