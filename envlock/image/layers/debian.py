"""Debian packages as layers, with no engine, no root and no maintainer script. The room's front door."""

from __future__ import annotations

from envlock.image.layers.debian_accounts import User
from envlock.image.layers.debian_archive import DebFile
from envlock.image.layers.debian_base import base_entries
from envlock.image.layers.debian_bytecode import stdlib_bytecode_entries
from envlock.image.layers.debian_entries import deb_entries
from envlock.image.layers.debian_review import undone
from envlock.image.layers.debian_root import interpreter, interpreter_debs, unpack_root

__all__ = [
    "DebFile",
    "User",
    "base_entries",
    "deb_entries",
    "interpreter",
    "interpreter_debs",
    "stdlib_bytecode_entries",
    "undone",
    "unpack_root",
]
