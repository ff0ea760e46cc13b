"""Which files look as if they held secrets, by what their writers call them and by what stands in them."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["looks_private"]

_NAMES = frozenset(
    {
        ".env",
        ".envrc",
        ".git-credentials",
        ".htpasswd",
        ".netrc",
        ".npmrc",
        ".pgpass",
        ".pypirc",
        "_netrc",
        "credentials.json",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "id_rsa",
        "kaggle.json",
    }
)
_ENV = re.compile(r"\.env\.(?!example$|sample$|template$|dist$).+")
_PLACES = (".aws/credentials", ".docker/config.json", ".ssh/", ".gnupg/", ".huggingface/token", "huggingface/token")
_KEY = re.compile(rb"^-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----", re.MULTILINE)
_KEY_SIZE = 1 << 18  # bytes that are looked at; keys are far smaller


def looks_private(path: Path) -> bool:
    """Whether the file has a name or place that keys and passwords have, or begins a line with a private key."""
    if path.name in _NAMES or _ENV.fullmatch(path.name):
        return True
    place = path.as_posix()
    if any(f"/{known}" in place for known in _PLACES):
        return True
    with path.open("rb") as opened:
        return _KEY.search(opened.read(_KEY_SIZE)) is not None
