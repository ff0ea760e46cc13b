"""The environment variables that programs in the image start with."""

from __future__ import annotations

from pathlib import PurePosixPath

from envlock.lock.model import HostContract
from envlock.spec.model import DataKind, DataSpec, EnvSpec

__all__ = ["cache_variables", "cuda_requirement", "image_environment"]

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Where caches go, by what kinds of directory suit them: a network disk is slow for many small files, a public one
# cannot be written to.
_CACHE_KINDS = (DataKind.CACHE, DataKind.DATA_DISK, DataKind.SCRATCH)
_CACHES = {
    "HF_HOME": "huggingface",
    "TORCH_HOME": "torch",
    "TRITON_CACHE_DIR": "triton",
    "XDG_CACHE_HOME": "cache",
}


def image_environment(spec: EnvSpec, contract: HostContract) -> dict[str, str]:
    """All variables, PATH first and the others sorted; what the spec sets stands over what envlock would."""
    prefix = str(spec.image.prefix)
    variables = {"LANG": "C.UTF-8", "VIRTUAL_ENV": prefix}
    requirement = cuda_requirement(contract)
    if requirement is not None:
        variables |= {
            "NVIDIA_VISIBLE_DEVICES": "all",
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
            "NVIDIA_REQUIRE_CUDA": requirement,
        }
    variables |= cache_variables(spec.data)
    for directory in spec.data:
        variables |= {name: str(path) for name, path in directory.env.items()}
    variables |= spec.image.env
    path = variables.pop("PATH", f"{prefix}/bin:{_SYSTEM_PATH}")
    return {"PATH": path} | dict(sorted(variables.items()))


def cuda_requirement(contract: HostContract) -> str | None:
    """What NVIDIA's container hook must find before it starts the container; None where there is no CUDA.

    The hook compares with the highest CUDA version of the driver, and a runtime runs on every driver of its major
    version (12.8 on driver 535, which says 12.2), so only the major version is required. Drivers' own numbers are not
    used: some versions of the hook do not know them.
    """
    if contract.cuda is None:
        return None
    return f"cuda>={contract.cuda.split('.')[0]}.0"


def cache_variables(data: tuple[DataSpec, ...]) -> dict[str, str]:
    """Caches of models and compilers, pointed away from the system disk, where a directory is fit for them."""
    for kind in _CACHE_KINDS:
        for directory in data:
            if directory.kind is kind:
                place: PurePosixPath = directory.path
                return {name: str(place / folder) for name, folder in _CACHES.items()}
    return {}
