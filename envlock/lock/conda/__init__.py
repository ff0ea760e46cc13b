"""The conda side of a lock: solved by rattler, written through conda-lock's model."""
