"""The manifest of a plan, once its layers are known."""

from __future__ import annotations

from collections.abc import Sequence

from envlock import __version__, manifest
from envlock.digest import Digest
from envlock.image.config import FinishedLayer, command_line, rfc3339
from envlock.image.environment import image_environment
from envlock.image.plan import ImagePlan
from envlock.image.settings import access_of
from envlock.lock.model import Lock, LockedWheel
from envlock.spec.model import DataKind, DataSpec, SourceSpec

__all__ = ["describe"]

_REASONS = {
    DataKind.DATA_DISK: "it is on a data disk, which a saved system disk does not hold",
    DataKind.NETWORK: "it is on a network disk, which is mounted and not saved",
    DataKind.SCRATCH: "it is scratch space, which may be lost at any time",
    DataKind.CACHE: "it is a cache, which can be filled again",
    DataKind.PUBLIC: "it is public data of the platform, which every machine has",
}


def describe(
    plan: ImagePlan, layers: Sequence[FinishedLayer], clashes: Sequence[manifest.Clash], *, lock: Digest
) -> manifest.Manifest:
    """What is in an image of this plan and these layers; `lock` is the digest of the lock's bytes."""
    spec, locked = plan.spec, plan.lock
    prefix = str(spec.image.prefix)
    bytecode = manifest.Bytecode(mode="unchecked-hash", compiler=plan.bytecode) if plan.bytecode else None
    return manifest.Manifest(
        environment=spec.name,
        platform=plan.platform,
        created=rfc3339(plan.epoch),
        made_by=manifest.MadeBy(
            envlock=__version__, resolver=locked.made_by.resolver, resolver_version=locked.made_by.resolver_version
        ),
        digests=manifest.Digests(lock=lock, spec=locked.spec),
        python=manifest.Python(
            version=locked.base.python, executable=f"{prefix}/bin/python", prefix=prefix, bytecode=bytecode
        ),
        suite=locked.base.suite,
        glibc=locked.base.glibc,
        contract=_contract(plan),
        settings=_settings(plan),
        debs=tuple(
            manifest.Deb(name=deb.name, version=deb.version, architecture=deb.architecture, sha256=deb.sha256)
            for deb in locked.debs_for(plan.platform)
        ),
        wheels=tuple(_wheel(wheel) for wheel in locked.wheels_for(plan.platform)),
        copies=_copies(plan),
        data=tuple(_data(directory) for directory in spec.data),
        sources=tuple(_source(source) for source in spec.sources),
        concessions=_concessions(locked),
        clashes=tuple(sorted(clashes, key=lambda clash: (clash.path, clash.lost))),
        layers=tuple(
            manifest.LayerRow(title=layer.title, recipe=layer.recipe, diff_id=layer.diff_id) for layer in layers
        ),
    )


def _contract(plan: ImagePlan) -> manifest.Contract:
    contract = plan.lock.contract_for(plan.platform)
    return manifest.Contract(
        cuda=contract.cuda,
        driver=contract.driver,
        architectures_known=contract.architectures_known,
        cubin=contract.cubin,
        ptx=contract.ptx,
        glibc=contract.glibc,
    )


def _settings(plan: ImagePlan) -> manifest.Settings:
    entrypoint, cmd = command_line(plan)
    return manifest.Settings(
        env=image_environment(plan.spec, plan.lock.contract_for(plan.platform)),
        user=plan.user.written,
        workdir=str(plan.spec.image.workdir or ""),
        entrypoint=entrypoint,
        cmd=cmd,
        access=access_of(plan),
    )


def _wheel(wheel: LockedWheel) -> manifest.Wheel:
    source = wheel.built_from
    return manifest.Wheel(
        name=wheel.name,
        version=wheel.version,
        file=wheel.file,
        sha256=wheel.sha256,
        index=wheel.index,
        requested=wheel.requested,
        url=wheel.direct_url or (source.url if source else None),
        commit=source.commit if source else None,
    )


def _copies(plan: ImagePlan) -> tuple[manifest.CopiedSource, ...]:
    return tuple(
        manifest.CopiedSource(
            source=tree.label,
            to=str(tree.to),
            tree=tree.digest,
            files=tree.count,
            bytes=tree.size,
            tracked=tree.tracked,
            commit=tree.commit,
            dirty=tree.dirty,
        )
        for tree in plan.copies
    )


def _data(directory: DataSpec) -> manifest.DataDirectory:
    return manifest.DataDirectory(
        path=str(directory.path),
        kind=str(directory.kind),
        purpose=directory.purpose,
        reason=f"excluded by design: {_REASONS[directory.kind]}",
        on_stop=directory.on_stop,
        on_release=directory.on_release,
        required=directory.required,
        min_free=directory.min_free,
        env={name: str(path) for name, path in directory.env.items()},
    )


def _source(source: SourceSpec) -> manifest.Source:
    status = "confirmed" if source.confirmed else "unconfirmed" if source.licence else "unknown"
    return manifest.Source(
        name=source.name, kind=source.kind, licence=source.licence, licence_status=status, url=source.url
    )


def _concessions(lock: Lock) -> tuple[manifest.GivenUp, ...]:
    return tuple(
        manifest.GivenUp(package=given.package, wanted=given.wanted, got=given.got, reason=given.reason)
        for given in lock.concessions
    )
