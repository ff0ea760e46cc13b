"""envlock: lock an environment, build it as an image, prove it on the new machine."""

__version__ = "0.1.0"
