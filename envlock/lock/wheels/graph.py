"""Which locked package needs which: an own walk over the metadata, which also proves the resolver's answer whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from packaging.version import Version

from envlock.errors import Unsatisfiable
from envlock.lock.wheels.asks import Ask
from envlock.lock.wheels.metadata import Need, WheelMetadata
from envlock.lock.wheels.target import Target

__all__ = ["needs_of"]


def needs_of(
    asks: Sequence[Ask],
    chosen: Mapping[str, Version],
    metadata: Callable[[str], WheelMetadata],
    target: Target,
    resolver: str,
) -> dict[str, tuple[str, ...]]:
    """The names that each chosen package needs on the target, sorted, with the extras that are asked of it.

    Raises Unsatisfiable "resolution-incomplete" where a need is not met by what was chosen.
    """
    found: dict[str, set[str]] = {name: set() for name in chosen}
    queue = [(ask.name, extra) for ask in asks for extra in ("", *sorted(ask.extras))]
    for ask in asks:
        _check(chosen, ask.origin, ask.name, ask.specifier.contains, resolver)
    seen = set(queue)
    while queue:
        name, extra = queue.pop()
        for need in metadata(name).needed(target, [extra]):
            _check(chosen, f"{name} {chosen[name]}", need.name, _accepts(need), resolver)
            found[name].add(need.name)
            for step in [(need.name, wanted) for wanted in ("", *need.extras)]:
                if step not in seen:
                    seen.add(step)
                    queue.append(step)
    return {name: tuple(sorted(needs - {name})) for name, needs in found.items()}


def _accepts(need: Need) -> Callable[..., bool]:
    # A URL's wheel is the project's only one here, and an unreadable specifier was the resolver's to read.
    return need.specifier.contains if need.specifier is not None and need.url is None else lambda *_, **__: True


def _check(chosen: Mapping[str, Version], whose: str, name: str, accepts: Callable[..., bool], resolver: str) -> None:
    version = chosen.get(name)
    if version is not None and accepts(version, prereleases=True):
        return
    answer = f"{name} {version}" if version else f"no {name}"
    raise Unsatisfiable(
        f"{resolver} answered with {answer}, which is not what {whose} asks for",
        hint='Try the other resolver (resolver = "uv" or "pip-tools" in [python]).',
        code="resolution-incomplete",
    )
