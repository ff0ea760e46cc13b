"""The channels of a specification: what they are called, what they stand for in a lock, and where they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envlock.errors import FaultyInput
from envlock.fetch.conda_config import CondaSettings

__all__ = ["ChannelPlace", "channel_of", "channel_places", "package_urls", "public_url"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPlace:
    """One channel: `url` stands in conda-lock.yml, `places` are asked in turn. Both end with a slash.

    `places` may hold tokens.
    """

    name: str
    url: str
    places: tuple[str, ...]


def public_url(channel: str) -> str:
    """What a channel's name stands for where nothing is configured; a URL is itself. With a final slash."""
    from rattler import Channel  # noqa: PLC0415 (only where there is a conda side)

    return channel.rstrip("/") + "/" if "://" in channel else str(Channel(channel).base_url)


def channel_places(
    channels: Sequence[str], settings: CondaSettings, mirrors: dict[str, tuple[str, ...]]
) -> tuple[ChannelPlace, ...]:
    """Every channel with its places."""
    found = []
    for name in channels:
        url = public_url(name)
        places = settings.places(name, mirrors=mirrors.get(name, ()), default=url)
        found.append(ChannelPlace(name=name, url=url, places=places))
    return tuple(found)


def package_urls(
    channel: str, subdir: str, file: str, settings: CondaSettings, mirrors: dict[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Where a package may be fetched, best first."""
    places = settings.places(channel, mirrors=mirrors.get(channel, ()), default=public_url(channel))
    return tuple(f"{place}{subdir}/{file}" for place in places)


def channel_of(url: str, channels: Sequence[ChannelPlace]) -> ChannelPlace:
    """The channel below which a URL of a conda-lock.yml lies; raise FaultyInput "conda-lock-foreign-channel"."""
    for channel in channels:
        if url.startswith(channel.url):
            return channel
    raise FaultyInput(
        f"{url} lies below none of the file's channels ({', '.join(each.url for each in channels)})",
        hint="Name its channel in the file's metadata, or lock anew.",
        code="conda-lock-foreign-channel",
    )
