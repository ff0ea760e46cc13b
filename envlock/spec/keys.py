"""The keys of envlock.toml, table by table: the one list that the reader and the documentation are held to."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["KEYS"]

# Tables by the name of their keys; "" is the file itself.
KEYS: Mapping[str, tuple[str, ...]] = {
    "": ("env", "python", "index", "target", "base", "conda", "image", "data", "access", "source"),
    "env": ("name", "python", "platforms"),
    "python": ("requirements", "constraints", "exclude-newer", "resolver", "allow-sdist"),
    "index": ("name", "url", "packages"),
    "target": ("driver", "gpus", "cuda"),
    "base": ("debian", "packages", "mirror"),
    "conda": ("channels", "dependencies", "file", "mirrors", "solver", "lock", "wins", "allow-scripts"),
    "image": (
        "prefix",
        "user",
        "env",
        "entrypoint",
        "cmd",
        "workdir",
        "labels",
        "archive-compression",
        "bytecode",
        "copy",
    ),
    "image.copy": ("source", "to", "ignore", "tracked"),
    "data": ("path", "kind", "purpose", "on-stop", "on-release", "required", "min-free", "env"),
    "access": ("ssh", "jupyter"),
    "source": ("name", "kind", "licence", "confirmed", "url"),
}
