"""Where the files of a package go: the merged /usr, and what is left out of the image."""

from __future__ import annotations

from fnmatch import fnmatchcase

from envlock.image.layers.debian_archive import Member

__all__ = [
    "BASE_PATHS",
    "EXCLUDES_FILE",
    "excludes_config",
    "is_excluded",
    "is_excluded_file",
    "merged",
    "merged_links",
]

# Links that the merged /usr has at the root; `base_entries` makes them, and no package's own are taken.
_ALIASES = ("bin", "lib", "lib32", "lib64", "libo32", "libx32", "sbin")

# Paths that packages ship in another shape than the one they have once maintainer scripts have run.
BASE_PATHS = frozenset((*_ALIASES, "var/lock", "var/run"))

EXCLUDES_FILE = "etc/dpkg/dpkg.cfg.d/envlock"

# (include, pattern) in dpkg's order: the last pattern that matches decides.
_FILTERS = (
    (False, "/usr/share/doc/*"),
    (True, "/usr/share/doc/*/copyright"),
    (False, "/usr/share/groff/*"),
    (False, "/usr/share/info/*"),
    (False, "/usr/share/linda/*"),
    (False, "/usr/share/lintian/*"),
    (False, "/usr/share/locale/*"),
    (True, "/usr/share/locale/locale.alias"),
    (False, "/usr/share/man/*"),
)


def merged(path: str) -> str:
    """A package's path, or a link's absolute target, where it is on a merged /usr: `bin/sh` is `usr/bin/sh`.

    A leading slash is dropped.
    """
    path = path.lstrip("/")
    return f"usr/{path}" if path.partition("/")[0] in _ALIASES else path


def merged_links(architecture: str) -> dict[str, str]:
    """The links at the root, path to target, for a Debian architecture."""
    loaders = ("lib64",) if architecture == "amd64" else ()
    return {name: f"usr/{name}" for name in ("bin", "lib", *loaders, "sbin")}


def is_excluded(member: Member) -> bool:
    """Whether dpkg, configured with `excludes_config()`, would leave this out.

    dpkg keeps directories and symbolic links in which an include pattern may yet find something.
    """
    name = "/" + member.path
    if not is_excluded_file(name):
        return False
    if member.body is not None or member.hardlink is not None:
        return True
    return not any(include and name.startswith(pattern.partition("*")[0]) for include, pattern in _FILTERS)


def is_excluded_file(name: str) -> bool:
    """Whether the filters leave out a file of this absolute path, as shipped."""
    verdicts = [include for include, pattern in _FILTERS if fnmatchcase(name, pattern)]
    return bool(verdicts) and not verdicts[-1]


def excludes_config() -> str:
    """The dpkg configuration with which later installations leave out the same files."""
    lines = [f"path-{'include' if include else 'exclude'}={pattern}\n" for include, pattern in _FILTERS]
    return "# Documentation, manual pages and translations are not in this image.\n" + "".join(lines)
