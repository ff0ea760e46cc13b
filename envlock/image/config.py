"""The image's configuration, as the OCI image specification has it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from envlock.digest import Digest
from envlock.image.canonical import canonical_json
from envlock.image.environment import image_environment
from envlock.image.plan import ImagePlan
from envlock.image.settings import ENTRYPOINT, MANIFEST_PATH, access_of

__all__ = ["FinishedLayer", "command_line", "image_config", "rfc3339"]

_NAMESPACE = "org.envlock"
_JUPYTER_PORT = "8888/tcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedLayer:
    """A layer as an image lists it: its recipe's key and title, its gzip bytes, and its tar (of `unpacked` bytes)."""

    recipe: Digest
    title: str
    digest: Digest
    size: int
    diff_id: Digest
    unpacked: int


def rfc3339(epoch: int) -> str:
    """Seconds since 1970 as a time in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))


def command_line(plan: ImagePlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Entry point and default arguments: the spec's; with [access] and no entry point of its own, ours."""
    image = plan.spec.image
    if image.entrypoint:
        return image.entrypoint, image.cmd
    if access_of(plan):
        return (ENTRYPOINT,), image.cmd
    return (), image.cmd or ("/bin/bash",)


def image_config(plan: ImagePlan, layers: Sequence[FinishedLayer], *, lock: Digest) -> bytes:
    """The configuration's JSON; `lock` is the digest of the lock's bytes. The same inputs give the same bytes."""
    created = rfc3339(plan.epoch)
    history = [
        {
            "created": created,
            "created_by": f"envlock: {layer.title}",
            "comment": f"{_NAMESPACE}.recipe={layer.recipe}",
        }
        for layer in layers
    ]
    return canonical_json(
        {
            "architecture": plan.platform.architecture,
            "os": "linux",
            "created": created,
            "config": _runtime(plan, lock),
            "rootfs": {"type": "layers", "diff_ids": [str(layer.diff_id) for layer in layers]},
            "history": history,
        }
    )


def _runtime(plan: ImagePlan, lock: Digest) -> dict[str, object]:
    image = plan.spec.image
    entrypoint, cmd = command_line(plan)
    environment = image_environment(plan.spec, plan.lock.contract_for(plan.platform))
    values: dict[str, object] = {
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "Labels": _labels(plan, lock),
    }
    optional: dict[str, object] = {
        "User": plan.user.written,
        "WorkingDir": str(image.workdir) if image.workdir else "",
        "Entrypoint": list(entrypoint),
        "Cmd": list(cmd),
        "ExposedPorts": {_port(name, plan): {} for name in access_of(plan)},
    }
    return values | {name: value for name, value in optional.items() if value}


def _port(service: str, plan: ImagePlan) -> str:
    """Where the entry point's service listens; only root may listen on 22."""
    if service == "jupyter":
        return _JUPYTER_PORT
    return "22/tcp" if plan.user.uid == 0 else "2222/tcp"


def _labels(plan: ImagePlan, lock: Digest) -> dict[str, str]:
    """Common labels, which the user's may replace, and envlock's own, which they may not."""
    contract = plan.lock.contract_for(plan.platform)
    common = {
        "org.opencontainers.image.title": plan.spec.name,
        "org.opencontainers.image.version": lock.hex[:12],
        "org.opencontainers.image.created": rfc3339(plan.epoch),
        "org.opencontainers.image.description": f"Python {plan.lock.base.python} environment on Debian "
        f"{plan.lock.base.suite}, made by envlock; the data directories are not part of it",
    }
    own = {
        f"{_NAMESPACE}.lock": str(lock),
        f"{_NAMESPACE}.spec": str(plan.lock.spec),
        f"{_NAMESPACE}.manifest": MANIFEST_PATH,
        f"{_NAMESPACE}.prefix": str(plan.spec.image.prefix),
        f"{_NAMESPACE}.data.excluded": canonical_json([str(place.path) for place in plan.spec.data]).decode(),
        f"{_NAMESPACE}.contract": canonical_json(
            {
                "cuda": contract.cuda,
                "driver": contract.driver,
                "cubin": contract.cubin,
                "ptx": contract.ptx,
                "glibc": contract.glibc,
            }
        ).decode(),
    }
    return common | plan.spec.image.labels | own
