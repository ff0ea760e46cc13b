"""Where the parts of a wheel are installed in an environment: the paths of a venv, below its prefix."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from packaging.utils import canonicalize_name

__all__ = ["Scheme", "is_the_environments", "place", "relative_to_site_packages"]

_PREFIX = re.compile(r"[^/\0]+(?:/[^/\0]+)*")
_PYTHON = re.compile(r"\d+\.\d+")
# What makes the environment itself, so that no wheel may bring it: its configuration, interpreter and activation.
_ENVIRONMENT = re.compile(r"pyvenv\.cfg|lib64|bin/python(?:\d+(?:\.\d+)?)?|bin/activate|\.gitignore")


@dataclass(frozen=True, slots=True)
class Scheme:
    """An environment: `prefix` is its path without a leading slash ("opt/env"), `python` an X.Y ("3.13")."""

    prefix: str
    python: str

    def __post_init__(self) -> None:
        parts = self.prefix.split("/")
        if not _PREFIX.fullmatch(self.prefix) or {".", ".."} & set(parts) or not _PYTHON.fullmatch(self.python):
            raise ValueError(f"not an environment's prefix and X.Y: {self.prefix!r}, {self.python!r}")

    @property
    def site_packages(self) -> str:
        """Where packages are, without a leading slash."""
        return f"{self.prefix}/lib/python{self.python}/site-packages"

    @property
    def scripts(self) -> str:
        """Where programs are, without a leading slash."""
        return f"{self.prefix}/bin"

    @property
    def executable(self) -> str:
        """The interpreter's absolute path, as scripts name it."""
        return f"/{self.prefix}/bin/python"

    def headers(self, name: str) -> str:
        """Where a project's C headers are: where pip puts them in a venv."""
        return f"{self.prefix}/include/site/python{self.python}/{canonicalize_name(name)}"

    def folders(self) -> tuple[str, ...]:
        """The directories that every environment has, from the root down to site-packages, sorted."""
        found = {self.scripts, self.site_packages}
        for path in tuple(found):
            while path := posixpath.dirname(path):
                found.add(path)
        return tuple(sorted(found))


def place(name: str, *, data: str, project: str, scheme: Scheme) -> str | None:
    """The installed path of a wheel's file `name`; None where the wheel standard has no place for it.

    `data` is the name of the wheel's .data folder, `project` the project's name as METADATA writes it.
    """
    top, _, rest = name.partition("/")
    if not (rest and top.endswith(".data")):
        return f"{scheme.site_packages}/{name}"
    kind, _, path = rest.partition("/")
    roots = {
        "purelib": scheme.site_packages,
        "platlib": scheme.site_packages,
        "scripts": scheme.scripts,
        "headers": scheme.headers(project),
        "data": scheme.prefix,
    }
    if top != data or not path or kind not in roots:
        return None
    if kind == "data" and path.startswith("lib64/"):
        path = path.replace("lib64", "lib", 1)  # lib64 is a link to lib, which an installer would write through
    installed = f"{roots[kind]}/{path}"
    return None if is_the_environments(installed, scheme) else installed


def is_the_environments(path: str, scheme: Scheme) -> bool:
    """Whether an installed path is the environment's own: no wheel may bring or make it."""
    return _ENVIRONMENT.fullmatch(path.removeprefix(f"{scheme.prefix}/")) is not None


def relative_to_site_packages(path: str, scheme: Scheme) -> str:
    """An installed path as RECORD writes it."""
    return posixpath.relpath(path, scheme.site_packages)
