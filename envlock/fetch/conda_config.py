"""Where a conda channel is, by the user's own configuration: .condarc, CONDA_CHANNEL_ALIAS, the spec's mirrors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from envlock.errors import FaultyInput

__all__ = ["CondaSettings", "mask_secrets", "read_conda_settings"]

_SECRET = re.compile(r"(?<=/t/)[^/\s]+|(?<=://)[^/\s@]+(?=@)")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def mask_secrets(text: str) -> str:
    """The text with tokens and logins of URLs blotted out."""
    return _SECRET.sub("***", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaSettings:
    """What the user's configuration says of channels; later files stand over earlier ones."""

    alias: str | None = None
    channels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name -> URLs, best first

    def places(self, channel: str, *, mirrors: Sequence[str] = (), default: str) -> tuple[str, ...]:
        """The URLs that a channel's packages may come from, best first, each with a final slash.

        `default` is where a name leads without any configuration. They may hold tokens: never told, never written.
        """
        if mirrors:
            found: Sequence[str] = [url if "://" in url else Path(url).as_uri() for url in mirrors]
        elif "://" in channel:
            found = self._with_login(channel)
        elif channel in self.channels:
            found = self.channels[channel]
        else:
            found = [f"{self.alias}/{channel}" if self.alias else default]
        return tuple(url.rstrip("/") + "/" for url in found)

    def _with_login(self, channel: str) -> list[str]:
        """A URL of the spec, with the token that the configuration has for the same place."""
        plain = channel.rstrip("/")
        known = [url.rstrip("/") for urls in self.channels.values() for url in urls]
        known += [f"{self.alias}{plain.removeprefix(_without_secrets(self.alias))}"] if self.alias else []
        return [url for url in known if url != plain and _without_secrets(url) == plain][:1] or [plain]


def read_conda_settings(environ: Mapping[str, str], home: Path) -> CondaSettings:
    """Read what conda itself would read, in its order; raise FaultyInput "condarc-faulty"."""
    alias: str | None = None
    channels: dict[str, tuple[str, ...]] = {}
    for path in _files(environ, home):
        values = _read(path)
        alias = _url(values.get("channel_alias"), environ) or alias
        for key in ("custom_channels", "custom_multichannels", "mirrored_channels"):
            for name, written in _table(values.get(key)).items():
                urls = [written] if isinstance(written, str) else list(written) if isinstance(written, list) else []
                found = tuple(filter(None, (_url(url, environ) for url in urls)))
                if found:
                    # conda appends the channel's name to what custom_channels gives
                    channels[name] = tuple(f"{url}/{name}" for url in found) if key == "custom_channels" else found
    alias = _url(environ.get("CONDA_CHANNEL_ALIAS"), environ) or alias
    return CondaSettings(alias=alias, channels=channels)


def _files(environ: Mapping[str, str], home: Path) -> list[Path]:
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    places = [Path("/etc/conda/.condarc"), Path("/etc/conda/condarc")]
    places += [config / "conda" / name for name in (".condarc", "condarc")]
    places += [home / ".conda" / "condarc", home / ".conda" / ".condarc", home / ".condarc", home / ".mambarc"]
    if environ.get("CONDA_PREFIX"):
        places.append(Path(environ["CONDA_PREFIX"]) / ".condarc")
    if environ.get("CONDARC"):
        places.append(Path(environ["CONDARC"]))
    return [place for place in places if place.is_file()]


def _read(path: Path) -> Mapping[str, object]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f":{mark.line + 1}" if mark is not None else ""
        raise FaultyInput(
            f"{path}{where}: cannot be read: {getattr(exc, 'problem', None) or exc.__class__.__name__}",
            hint="Correct the file, or point CONDARC at another.",
            code="condarc-faulty",
        ) from exc
    return _table(values)


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _url(value: object, environ: Mapping[str, str]) -> str | None:
    """A URL without its final slash, variables expanded as conda does; what names no URL is not one."""
    if not isinstance(value, str) or not value.strip():
        return None
    return _VARIABLE.sub(lambda found: environ.get(found[1], found[0]), value.strip()).rstrip("/")


def _without_secrets(url: str) -> str:
    return re.sub(r"/t/[^/]+|(?<=://)[^/@]+@", "", url)
