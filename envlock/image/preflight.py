"""What is found out before anything is downloaded: whether lock, spec and machine go together."""

from __future__ import annotations

from collections.abc import Sequence

from envlock.errors import Difference, Unsatisfiable
from envlock.lock.contract import judge, torch_of
from envlock.lock.model import Lock
from envlock.platforms import Platform
from envlock.spec.model import EnvSpec

__all__ = ["can_compile", "host_platform", "refuse_mismatch"]


def refuse_mismatch(spec: EnvSpec, lock: Lock, platforms: Sequence[Platform]) -> None:
    """Raise Difference "stale-lock" for another spec's lock, Unsatisfiable "contract-not-met" for a lesser target."""
    if lock.spec != spec.digest or lock.name != spec.name:
        raise Difference(
            f"{spec.file}, or a file that it names, changed since the lock of {lock.name} was made",
            hint="Run `envlock lock` for it, and build again; `envlock lock --check` tells what changed.",
            code="stale-lock",
        )
    for platform in platforms:
        if platform not in lock.platforms:
            continue  # the plan refuses it by name
        wheels = lock.wheels_for(platform)
        torch = torch_of(wheels)
        lacks = judge(lock.contract_for(platform), spec.target, torch=torch.version if torch else None)
        if lacks:
            raise Unsatisfiable(
                f"{lock.name} for {platform} " + "; ".join(lack.words for lack in lacks),
                hint="Lock again: `envlock lock` looks for versions that the target can run.",
                code="contract-not-met",
            )


def host_platform(machine: str) -> Platform | None:
    """The platform whose programs this machine runs; `machine` is as `uname -m` has it."""
    names = {platform.machine: platform for platform in Platform} | {"arm64": Platform.ARM64}
    return names.get(machine)


def can_compile(lock: Lock, machine: str) -> bool:
    """Whether the lock has a Python that this machine can run."""
    host = host_platform(machine)
    minimal = f"python{lock.python}-minimal"
    return host in lock.platforms and any(deb.name == minimal for deb in lock.debs_for(host))
