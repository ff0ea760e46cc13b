"""`envlock lock`."""

from __future__ import annotations

from pathlib import Path

import click

from envlock.cli.common import Terminal, common_options, terminal
from envlock.cli.console import human_bytes
from envlock.cli.options import spec_options
from envlock.lock.dry_run import DryRun, PlatformRun
from envlock.lock.model import HostContract
from envlock.wiring.locking import Locked, LockRequest, check_lock, try_lock
from envlock.wiring.locking import lock as lock_files
from envlock.wiring.services import Sources
from envlock.wiring.world import World

__all__ = ["lock"]


@click.command()
@spec_options
@click.option(
    "--check",
    is_flag=True,
    help="Only tell whether the lock is what SPEC asks for; asks no server. A stale one exits with 1.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing; tell bytes, disk and the verdict on the target.")
@click.option("--upgrade", is_flag=True, help="Let all pins go.")
@click.option("--upgrade-package", "packages", multiple=True, metavar="NAME", help="Let this pin go (repeatable).")
@common_options
@click.pass_context
def lock(
    context: click.Context,
    /,
    spec: Path,
    lock_dir: Path | None,
    check: bool,
    dry_run: bool,
    upgrade: bool,
    packages: tuple[str, ...],
    index_url: str | None,
    debian_mirror: str | None,
    offline: bool,
) -> None:
    """Pin and hash everything that SPEC asks for: write its lock.

    SPEC is a folder with envlock.toml, or the file itself [default: here]. It is resolved into lockfiles/NAME.lock,
    and pins that are there are kept unless an option lets them go.
    """
    talk = terminal(context)
    world = World.here(talk.start)
    request = LockRequest(
        folder=spec,
        lock_folder=lock_dir,
        sources=Sources(index_url=index_url, debian_mirror=debian_mirror, offline=offline),
        upgrade=upgrade,
        upgrade_packages=packages,
    )
    if check and (dry_run or upgrade or packages):
        raise click.UsageError("--check changes nothing, so it goes with no --dry-run or --upgrade")
    if check:
        file = check_lock(world, request)
        talk.data({"lock": str(file), "stale": False}, f"{file} is up to date")
    elif dry_run:
        run, changes = try_lock(world, request, talk.progress())
        talk.data(run.as_json() | {"changes": list(changes)}, "\n".join((*changes, _told(run))))
    else:
        _print(talk, lock_files(world, request, talk.progress()))


def _print(talk: Terminal, locked: Locked) -> None:
    lock = locked.lock
    size = sum(wheel.size for wheel in lock.wheels) + sum(deb.size for deb in lock.base.debs)
    lines = [*locked.changes]
    lines += [f"{one.platform}: {_needs(one)}, glibc >= {one.glibc}" for one in lock.contracts]
    what = f"{len(lock.wheels)} wheels and {len(lock.base.debs)} Debian packages, {human_bytes(size)}"
    lines.append(f"{'locked' if locked.written else 'unchanged'}: {locked.file} ({what})")
    values = {
        "lock": str(locked.file),
        "written": [str(path) for path in locked.written],
        "changes": list(locked.changes),
        "wheels": len(lock.wheels),
        "debs": len(lock.base.debs),
        "bytes": size,
    }
    talk.data(values, "\n".join(lines))


def _told(run: DryRun) -> str:
    lines = [
        f"{run.name}: {human_bytes(run.fetch)} to fetch, {human_bytes(run.in_store)} are in the cache",
        f"disk for fetching and building: about {human_bytes(run.build_disk)}",
    ]
    for platform in run.platforms:
        lines += _platform(platform)
    lines += [f"given up: {item.package} {item.wanted} -> {item.got}: {item.reason}" for item in run.concessions]
    return "\n".join(lines)


def _platform(run: PlatformRun) -> list[str]:
    contract = run.contract
    held = f"{run.wheels} wheels and {run.debs} Debian packages, {human_bytes(run.compressed)}"
    needs = _needs(contract)
    needs += f"; machine code for {', '.join(contract.cubin)}" if contract.cubin else ""
    needs += f"; PTX for {', '.join(contract.ptx)}" if contract.ptx else ""
    return [
        f"{run.platform}: {held}, about {human_bytes(run.unpacked)} on the system disk",
        f"  needs {needs}; glibc >= {contract.glibc}",
        *([f"  does not run on the target: {line}" for line in run.mismatches] or ["  runs on the target"]),
    ]


def _needs(contract: HostContract) -> str:
    return f"CUDA {contract.cuda}, driver >= {contract.driver}" if contract.cuda else "no CUDA"
