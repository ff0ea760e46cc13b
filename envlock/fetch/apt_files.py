"""apt's source files: one-line `.list` and deb822 `.sources`, read into plain entries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AptSource", "read_sources"]

_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<components>.*)")
_MIRROR_FILE = "mirror+file:"


@dataclass(frozen=True, slots=True, kw_only=True)
class AptSource:
    """One archive as a source entry names it. `signed_by` are keyring paths, `keys` inline armoured keys."""

    uri: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: tuple[Path, ...] = ()
    keys: tuple[str, ...] = ()


def read_sources(root: Path) -> tuple[AptSource, ...]:
    """The enabled binary sources of apt's configuration below `root`, one per URI, in apt's order.

    A `mirror+file:` list counts as the mirrors in it; what is not http(s) otherwise (cdrom, copy, tor) is left out.
    """
    folder = root / "etc" / "apt"
    parts = folder / "sources.list.d"
    files = [folder / "sources.list"]
    if parts.is_dir():
        files += sorted(file for file in parts.iterdir() if file.suffix in {".list", ".sources"})
    found: list[AptSource] = []
    for file in files:
        if not file.is_file():
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        entries = _deb822(text, root) if file.suffix == ".sources" else _lines(text, root)
        found += (source for entry in entries for source in _reachable(entry, root))
    return tuple(found)


def _reachable(source: AptSource, root: Path) -> Iterator[AptSource]:
    uris = [source.uri]
    if source.uri.startswith(_MIRROR_FILE):
        uris = _mirrors(root / source.uri.removeprefix(_MIRROR_FILE).lstrip("/"))
    for uri in uris:
        if uri.startswith(("http://", "https://")):
            yield AptSource(
                uri=uri.rstrip("/"),
                suites=source.suites,
                components=source.components,
                signed_by=source.signed_by,
                keys=source.keys,
            )


def _mirrors(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    # Metadata (priority:1, type:...) follows the URI after a tab.
    return [line.split()[0] for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _lines(text: str, root: Path) -> Iterator[AptSource]:
    for line in text.splitlines():
        match = _LINE.fullmatch(line.partition("#")[0].strip())
        if match is None:
            continue
        options = dict(item.partition("=")[::2] for item in (match["options"] or "").split())
        signed_by = options.get("signed-by", "")
        yield AptSource(
            uri=match["uri"],
            suites=(match["suite"],),
            components=tuple(match["components"].split()),
            signed_by=_keyrings(signed_by.replace(",", " "), root),
        )


def _deb822(text: str, root: Path) -> Iterator[AptSource]:
    for fields in _stanzas(text):
        enabled = fields.get("enabled", "yes").strip().lower() not in {"no", "false", "0", "off", "without"}
        if not enabled or "deb" not in fields.get("types", "").split():
            continue
        signed_by = fields.get("signed-by", "")
        inline = "-----BEGIN PGP" in signed_by
        for uri in fields.get("uris", "").split():
            yield AptSource(
                uri=uri,
                suites=tuple(fields.get("suites", "").split()),
                components=tuple(fields.get("components", "").split()),
                signed_by=() if inline else _keyrings(signed_by, root),
                keys=(_armoured(signed_by),) if inline else (),
            )


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    """Fields of each stanza, names in lower case, continuation lines joined by newlines."""
    fields: dict[str, str] = {}
    name = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield fields
            fields, name = {}, ""
        elif line[0] in " \t":
            if name:
                fields[name] += f"\n{line}"
        else:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value


def _keyrings(text: str, root: Path) -> tuple[Path, ...]:
    """The paths in a Signed-By value; bare key fingerprints name no file and are apt's own business."""
    return tuple(root / word.lstrip("/") for word in text.split() if word.startswith("/"))


def _armoured(value: str) -> str:
    """An inline key: a leading space on each line, and `.` for an empty one, are deb822's."""
    lines = (line[1:] if line[:1] in {" ", "\t"} else line for line in value.strip("\n").splitlines())
    return "\n".join("" if line.strip() == "." else line.strip() for line in lines).strip() + "\n"
