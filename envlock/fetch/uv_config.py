"""uv's configuration: its variables, and the user's and the system's uv.toml.

A uv.toml or pyproject.toml of the folder one works in is not read: an environment's own indexes stand in its spec.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from envlock.errors import FaultyInput
from envlock.fetch.config_layers import Layer, as_place, named, truth, with_credentials

__all__ = ["uv_layers"]


def uv_layers(environ: Mapping[str, str], home: Path, *, root: Path, cwd: Path) -> tuple[Layer, ...]:
    """What uv's UV_* variables say, then its files: the user's above the system's."""
    return (_variables(environ, home, cwd), *(_file(path, environ, home) for path in _files(environ, home, root)))


def _variables(environ: Mapping[str, str], home: Path, cwd: Path) -> Layer:
    def places(name: str, separator: str | None = None) -> list[str]:
        texts = (text.strip() for text in environ.get(name, "").split(separator))
        return [as_place(named(text, environ), cwd, home) for text in texts if text]

    default = places("UV_DEFAULT_INDEX") or places("UV_INDEX_URL")
    extra = places("UV_INDEX") + places("UV_EXTRA_INDEX_URL")
    hosts = environ.get("UV_INSECURE_HOST", "").split()
    timeout = environ.get("UV_HTTP_TIMEOUT", environ.get("UV_REQUEST_TIMEOUT", ""))
    return Layer(
        origin="uv's variables (UV_*)",
        index_url=default[0] if default else None,
        extra=tuple(extra) or None,
        extra_first=True,
        find_links=tuple(places("UV_FIND_LINKS", ",")) or None,
        trusted_hosts=tuple(hosts) or None,
        timeout=float(timeout) if timeout.isdigit() else None,
    )


def _files(environ: Mapping[str, str], home: Path, root: Path) -> list[Path]:
    if truth(environ.get("UV_NO_CONFIG")):
        return []
    if chosen := environ.get("UV_CONFIG_FILE"):
        return [Path(chosen)]
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"
    config_dirs = environ.get("XDG_CONFIG_DIRS") or str(root / "etc" / "xdg")
    system = [Path(folder, "uv", "uv.toml") for folder in config_dirs.split(os.pathsep) if folder]
    system.append(root / "etc" / "uv" / "uv.toml")
    return [file for file in [user, *[file for file in system if file.is_file()][:1]] if file.is_file()]


def _file(path: Path, environ: Mapping[str, str], home: Path) -> Layer:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise _faulty(path, str(exc)) from exc
    pip = data.get("pip")
    # [pip] is above the top level: it is what `uv pip` goes by.
    options = data | pip if isinstance(pip, dict) else data

    def texts(name: str) -> list[str]:
        value = options.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise _faulty(path, f"{name} must be a list of strings")
        return [as_place(item, path.parent, home) for item in value]

    url = options.get("index-url")
    default, extra, flat = _indexes(path, options.get("index", []), environ, home)
    return Layer(
        origin=str(path),
        index_url=default or (as_place(url, path.parent, home) if isinstance(url, str) and url else None),
        extra=tuple(extra + texts("extra-index-url")) or None,
        extra_first=True,
        find_links=tuple(flat + texts("find-links")) or None,
        no_index=options["no-index"] if isinstance(options.get("no-index"), bool) else None,
        trusted_hosts=tuple(host for host in options.get("allow-insecure-host", []) if isinstance(host, str)) or None,
    )


def _indexes(
    path: Path, entries: object, environ: Mapping[str, str], home: Path
) -> tuple[str | None, list[str], list[str]]:
    """The default index, the others, and the flat ones. Those for named packages only are the spec's to name."""
    if not isinstance(entries, list):
        raise _faulty(path, "index must be an array of tables: [[index]]")
    default: str | None = None
    extra: list[str] = []
    flat: list[str] = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("url"), str):
            raise _faulty(path, "each [[index]] needs a url")
        url = with_credentials(entry["url"], str(entry.get("name", "")), environ)
        place = as_place(url, path.parent, home)
        if entry.get("explicit") is True:
            continue
        if entry.get("format") == "flat":
            flat.append(place)
        elif entry.get("default") is True:
            default = default or place
        else:
            extra.append(place)
    return default, extra, flat


def _faulty(path: Path, why: str) -> FaultyInput:
    return FaultyInput(
        f"uv's configuration file {path} cannot be read: {why}",
        hint="Correct it (uv trips over it too), or set UV_CONFIG_FILE to another one.",
        code="uv-config-faulty",
    )
