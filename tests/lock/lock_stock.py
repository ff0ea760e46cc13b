"""A stock of packages and a small resolver over it, in the place of an index and uv."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lock_samples import deb, wheel
from packaging.requirements import Requirement as Pep508
from packaging.version import Version

from envlock.errors import Unsatisfiable
from envlock.lock.debian.suite import SuiteFacts, facts_of
from envlock.lock.model import LockedDeb, LockedWheel
from envlock.lock.wheels.resolve import Resolution, WheelRequest
from envlock.platforms import Platform

Releases = Mapping[str, Mapping[str, Sequence[str]]]


@dataclass(slots=True)
class Stock:
    """`releases` of the default index: name -> version -> requirements (with markers); other indexes by name.

    A choice is the newest version that all requirements allow, a pinned one before that; it is undone where it leads
    nowhere.
    """

    releases: Releases
    others: Mapping[str, Releases] = field(default_factory=dict)
    requests: list[WheelRequest] = field(default_factory=list)

    def resolve(self, request: WheelRequest) -> Resolution:
        self.requests.append(request)
        asked = _holding((item.text for item in request.requirements), request)
        limits = _holding((item.text for item in request.constraints), request)
        chosen = self._search(request, asked, {}, limits)
        if chosen is None:
            raise Unsatisfiable("no way", hint="none", code="no-resolution")
        requested = {item.name for item in asked}
        wheels = [replace(self._wheel(request, *item), requested=item[0] in requested) for item in chosen.items()]
        return Resolution(
            wheels=tuple(sorted(wheels, key=lambda item: item.name)), resolver="uv", resolver_version="1.0"
        )

    def _search(
        self, request: WheelRequest, todo: list[Pep508], chosen: dict[str, str], rules: list[Pep508]
    ) -> dict[str, str] | None:
        if not todo:
            return chosen
        first, *rest = todo
        rules = [*rules, first]
        for version in [chosen[first.name]] if first.name in chosen else self._versions(request, first.name):
            if not all(
                rule.specifier.contains(version, prereleases=True) for rule in rules if rule.name == first.name
            ):
                continue
            needs = [] if first.name in chosen else _holding(self._offers(request, first.name)[version], request)
            found = self._search(request, [*rest, *needs], {**chosen, first.name: version}, rules)
            if found is not None:
                return found
        return None

    def _versions(self, request: WheelRequest, name: str) -> list[str]:
        newest_first = sorted(self._offers(request, name), key=Version, reverse=True)
        return sorted(newest_first, key=lambda version: version != request.pins.get(name))

    def _offers(self, request: WheelRequest, name: str) -> Mapping[str, Sequence[str]]:
        index = request.alone.get(name)
        return (self.others[index] if index else self.releases).get(name, {})

    def _wheel(self, request: WheelRequest, name: str, version: str) -> LockedWheel:
        needs = _holding(self._offers(request, name)[version], request)
        return wheel(
            name,
            version,
            platforms=(request.platform,),
            index=request.alone.get(name, "default"),
            requires=tuple(sorted(item.name for item in needs)),
        )


def _holding(texts: Iterable[str], request: WheelRequest) -> list[Pep508]:
    parsed = map(Pep508, texts)
    environment = request.target.environment()
    return [item for item in parsed if item.marker is None or item.marker.evaluate(environment)]


CUDA13: Releases = {
    "cuda-toolkit": {"13.2.2": ["nvidia-cuda-runtime==13.2.*"], "13.0.2": ["nvidia-cuda-runtime==13.0.*"]}
}
TORCH: Releases = {
    "torch": {
        "2.15.0": ["cuda-toolkit==13.2.2", "triton==3.9.0"],
        "2.11.0": ["cuda-toolkit==13.0.2", "triton==3.7.0"],
        "2.10.0": ['nvidia-cuda-runtime-cu12==12.8.90 ; platform_machine == "x86_64"', "triton==3.6.0"],
        "2.7.1": ['nvidia-cuda-runtime-cu12==12.6.77 ; platform_machine == "x86_64"', "triton==3.3.1"],
        "2.6.0": ['nvidia-cuda-runtime-cu12==12.4.127 ; platform_machine == "x86_64"', "triton==3.2.0"],
        "1.4.0": [],  # from a time when no metadata told of CUDA
    },
    "triton": {version: [] for version in ("3.9.0", "3.7.0", "3.6.0", "3.3.1", "3.2.0")},
    "nvidia-cuda-runtime": {"13.2.75": [], "13.0.96": [], "0.0.1": []},
    "nvidia-cuda-runtime-cu12": {"12.8.90": [], "12.6.77": [], "12.4.127": []},
    "torchvision": {"0.30.0": ["torch==2.15.0"], "0.25.0": ["torch==2.10.0"], "0.22.1": ["torch==2.7.1"]},
    "peft": {"0.20.0": ["torch>=1.13"], "0.19.0": ["torch>=1.13"]},
    "six": {"1.17.0": [], "1.16.0": []},
    "jupyterlab": {"4.5.0": []},
    **CUDA13,
}
"""What the default index had of torch, in short."""


@dataclass(slots=True)
class FakeSuite:
    """A suite whose closure is what is asked for and a C library."""

    name: str = "trixie"
    versions: dict[str, str] = field(default_factory=dict)
    platforms: tuple[Platform, ...] = (Platform.AMD64,)

    def close(self, wanted: Mapping[str, str], *, pins: Iterable[LockedDeb] = ()) -> tuple[LockedDeb, ...]:
        pinned = {item.name: item.version for item in pins}
        defaults = {"python3": "3.13.5-1", "libc6": "2.41-12"}
        reasons = {"libc6": "essential", **wanted}
        found = [
            deb(
                name,
                pinned.get(name) or self.versions.get(name) or defaults.get(name, "1.0-1"),
                requested=reason,
                architecture="all" if len(self.platforms) > 1 else self.platforms[0].architecture,
                platforms=self.platforms,
            )
            for name, reason in reasons.items()
        ]
        return tuple(sorted(found, key=lambda item: item.name))

    def facts(self, *, pins: Iterable[LockedDeb] = ()) -> SuiteFacts:
        return facts_of(self.close({"python3": "python"}, pins=pins))
