"""rattler's solver, in this process: match specs and virtual packages to exact packages of the channels."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rattler import Client, Gateway, GenericVirtualPackage, PackageName, RepoDataRecord, SourceConfig, Version, solve
from rattler.exceptions import GatewayError, SolverError
from rattler.networking import AuthenticationMiddleware, RetryMiddleware
from rattler.package import BuildString

from envlock.errors import FaultyInput, MachineLacks, Unsatisfiable
from envlock.fetch.conda_config import mask_secrets
from envlock.lock.conda.channels import ChannelPlace
from envlock.platforms import Platform

__all__ = ["CondaRequest", "CondaSolver", "Found"]

_RETRIES = 2
_PATIENCE = 1800  # seconds for all repodata of one platform; a channel that never ends is given up then


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaRequest:
    """What to solve for one platform. `pins` are (name, version, build) to keep where the rest allows."""

    platform: Platform
    channels: tuple[ChannelPlace, ...]
    specs: tuple[str, ...]
    virtual: Mapping[str, tuple[str, str]]
    pins: tuple[tuple[str, str, str], ...] = ()
    exclude_newer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One package as the channel's repodata has it. `python` tells whether it is code of Python."""

    name: str
    version: str
    build: str
    channel: ChannelPlace
    subdir: str
    file: str
    size: int
    sha256: str
    md5: str
    depends: tuple[str, ...]
    python: bool


class CondaSolver:
    """Solves over channels; repodata is kept below `cache`."""

    def __init__(self, cache: Path, *, offline: bool = False, patience: float = _PATIENCE) -> None:
        self._cache = cache
        self._offline = offline
        self._patience = patience

    def solve(self, request: CondaRequest) -> tuple[Found, ...]:
        """The packages, sorted by name.

        Raise Unsatisfiable "conda-no-solution" in the solver's words, MachineLacks "conda-channel" where no place of
        a channel gives usable repodata, FaultyInput "conda-repodata" where that belies itself.
        """

        def work(places: Mapping[ChannelPlace, str]) -> Coroutine[Any, Any, list[RepoDataRecord]]:
            return self._solve(request, places)

        return self._try_places(request, work)

    def look_up(self, request: CondaRequest, specs: Sequence[str]) -> tuple[Found, ...]:
        """Every package of the channels that one of the specs matches; raises as `solve` does."""

        async def work(places: Mapping[ChannelPlace, str]) -> list[RepoDataRecord]:
            answer = await self._gateway().query(
                list(places.values()), _subdirs(request), specs, recursive=False, channel_relations="disabled"
            )
            return [record for one in answer for record in one]

        return self._try_places(request, work)

    def _try_places(
        self,
        request: CondaRequest,
        work: Callable[[Mapping[ChannelPlace, str]], Coroutine[Any, Any, list[RepoDataRecord]]],
    ) -> tuple[Found, ...]:
        refused: list[str] = []
        for turn in range(max(len(channel.places) for channel in request.channels)):
            places = {channel: channel.places[min(turn, len(channel.places) - 1)] for channel in request.channels}
            try:
                records = asyncio.run(asyncio.wait_for(work(places), self._patience))
            except TimeoutError:
                refused.append(f"nothing usable came within {self._patience:g} seconds")
            except GatewayError as exc:
                refused.append(str(exc))
            except SolverError as exc:
                raise no_solution(request, mask_secrets(str(exc))) from None
            else:
                return tuple(sorted((_found(each, places) for each in records), key=lambda each: each.name))
        raise self._unreachable(request, refused)

    def _gateway(self) -> Gateway:
        client = Client([RetryMiddleware(_RETRIES), AuthenticationMiddleware()], timeout=int(self._patience) or 1)
        self._cache.mkdir(parents=True, exist_ok=True)
        return Gateway(
            cache_dir=self._cache,
            client=client,
            default_config=SourceConfig(cache_action="force-cache-only" if self._offline else "cache-or-fetch"),
        )

    async def _solve(self, request: CondaRequest, places: Mapping[ChannelPlace, str]) -> list[RepoDataRecord]:
        gateway = self._gateway()
        sources, subdirs = list(places.values()), _subdirs(request)
        pinned: list[RepoDataRecord] = []
        if request.pins:
            exact = [f"{name} =={version}" for name, version, _ in request.pins]
            answer = await gateway.query(sources, subdirs, exact, recursive=False, channel_relations="disabled")
            wanted = set(request.pins)
            pinned = [record for one in answer for record in one if _identity(record) in wanted]
        return await solve(
            sources,
            request.specs,
            gateway=gateway,
            platforms=subdirs,
            locked_packages=pinned,
            virtual_packages=[_virtual(name, *said) for name, said in request.virtual.items()],
            exclude_newer=datetime.fromisoformat(request.exclude_newer) if request.exclude_newer else None,
            channel_relations="disabled",
        )

    def _unreachable(self, request: CondaRequest, refused: Sequence[str]) -> MachineLacks:
        names = ", ".join(channel.name for channel in request.channels)
        words = "".join(f"\n  {mask_secrets(_chain(line))}" for line in dict.fromkeys(refused))
        hint = (
            "Run it without --offline once."
            if self._offline
            else ("Look at the channel's address, at .condarc, [conda] mirrors, tokens and logins; or try again.")
        )
        return MachineLacks(
            f"the channels ({names}) give no usable repodata for {request.platform.conda}:{words}",
            hint=hint,
            code="conda-channel",
        )


def no_solution(request: CondaRequest, words: str) -> Unsatisfiable:
    """The refusal, in the solver's words, with what to loosen."""
    given = ", ".join(f"{name} {version}" for name, (version, _) in request.virtual.items() if name in words)
    advice = []
    if "__cuda" in words:
        advice.append("raise [target] driver or cuda, or ask for packages of an older CUDA")
    if "__glibc" in words:
        advice.append("name a newer suite in [base] debian")
    named = [spec for spec in request.specs if re.search(rf"\b{re.escape(spec.split()[0])}\b", words)]
    if named:
        advice.append(f"loosen one of: {', '.join(named)}")
    if not advice:
        advice.append("loosen the dependencies under [conda], or add a channel that has them")
    told = f"\nThe target has: {given}" if given else ""
    return Unsatisfiable(
        f"conda's packages for {request.platform} cannot be solved:\n{words}{told}",
        hint="; or ".join(advice).capitalize() + ".",
        code="conda-no-solution",
    )


def _found(record: RepoDataRecord, places: Mapping[ChannelPlace, str]) -> Found:
    name = record.name.normalized
    channel = next((each for each, place in places.items() if str(record.url).startswith(place)), None)
    if channel is None:
        raise _faulty(record, "is to be fetched from outside its channel, which envlock does not follow")
    if record.size is None or record.sha256 is None or record.md5 is None:
        raise _faulty(record, "has no size, sha256 or md5 in repodata, without which it cannot be locked")
    if record.url != f"{places[channel]}{record.subdir}/{record.file_name}":
        raise _faulty(record, f"is said to be in {record.subdir}, and is not")
    return Found(
        name=name,
        version=str(record.version),
        build=str(record.build),
        channel=channel,
        subdir=record.subdir,
        file=record.file_name,
        size=record.size,
        sha256=record.sha256.hex(),
        md5=record.md5.hex(),
        depends=tuple(record.depends),
        python=record.noarch.python or any(re.match(r"python(?![\w.-])", need) for need in record.depends),
    )


def _subdirs(request: CondaRequest) -> Any:
    return [request.platform.conda, "noarch"]


def _identity(record: RepoDataRecord) -> tuple[str, str, str]:
    return record.name.normalized, str(record.version), str(record.build)


def _virtual(name: str, version: str, build: str) -> GenericVirtualPackage:
    return GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))


def _faulty(record: RepoDataRecord, what: str) -> FaultyInput:
    return FaultyInput(
        f"{record.subdir}/{record.file_name} of {mask_secrets(str(record.channel))} {what}",
        hint="Tell whoever keeps the channel, or use another one.",
        code="conda-repodata",
    )


def _chain(text: str) -> str:
    return " ".join(text.split())
