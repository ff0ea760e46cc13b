"""The last layer: empty mount points, what shells and services need, the manifest and the lock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import PurePosixPath

from envlock.image.directories import directory_entry, leading_directories
from envlock.image.environment import image_environment
from envlock.image.layers.entries import Directory, Entry, File
from envlock.image.plan import ImagePlan, copy_places
from envlock.image.recipes import FilesRecipe

__all__ = ["ENTRYPOINT", "LOCK_PATH", "MANIFEST_PATH", "access_of", "files_recipe"]

MANIFEST_PATH = "/etc/envlock/manifest.json"
LOCK_PATH = "/etc/envlock/lock"
ENTRYPOINT = "/usr/local/bin/envlock-entrypoint"
_SYSTEM = tuple(map(PurePosixPath, ("/bin", "/etc", "/lib", "/sbin", "/tmp", "/usr", "/var")))  # noqa: S108 (of the image)


def files_recipe(plan: ImagePlan, *, manifest: str, lock: str) -> FilesRecipe:
    """The last layer's recipe, once the manifest's text is known; `lock` is the lock's own text."""
    entries: dict[str, Entry] = {}
    own = copy_places(plan.copies)
    for entry in _entries(plan, manifest, lock):
        for parent in leading_directories(entry.path, plan.user, own=own):
            entries.setdefault(parent.path, parent)
        entries[entry.path] = entry
    return FilesRecipe(entries=tuple(entries[path] for path in sorted(entries, key=str.encode)))


def access_of(plan: ImagePlan) -> tuple[str, ...]:
    """The names of the ways in that the spec asks for."""
    access = plan.spec.access
    return tuple(name for name, wanted in (("ssh", access.ssh), ("jupyter", access.jupyter)) if wanted)


def _entries(plan: ImagePlan, manifest: str, lock: str) -> Iterator[Entry]:
    for directory in plan.spec.data:
        yield directory_entry(_relative(directory.path), plan.user, own=True)
    workdir = plan.spec.image.workdir
    if workdir is not None and not _is_made(plan, workdir):
        yield Directory(path=_relative(workdir), uid=plan.user.uid, gid=plan.user.gid)
    variables = image_environment(plan.spec, plan.lock.contract_for(plan.platform))
    yield File(path="etc/profile.d/envlock.sh", body=_profile(variables, plan.spec.image.prefix).encode())
    yield File(path=MANIFEST_PATH.lstrip("/"), body=manifest.encode())
    yield File(path=LOCK_PATH.lstrip("/"), body=lock.encode())
    if access := access_of(plan):
        yield File(path="etc/envlock/access", body=(" ".join(access) + "\n").encode())
        script = files("envlock.image.layers").joinpath("entrypoint.sh").read_bytes()
        yield File(path=ENTRYPOINT.lstrip("/"), body=script, mode=0o755)
    if plan.spec.access.ssh:
        yield File(path="etc/ssh/sshd_config.d/envlock.conf", body=_sshd(variables).encode())


def _relative(path: PurePosixPath) -> str:
    return str(path).lstrip("/")


def _is_made(plan: ImagePlan, workdir: PurePosixPath) -> bool:
    """Whether the directory comes from somewhere else, or is not to be in the image at all."""
    homes = (plan.user.home, "/root", "/")
    places = (*(directory.path for directory in plan.spec.data), plan.spec.image.prefix, *_SYSTEM)
    return str(workdir) in homes or any(workdir.is_relative_to(place) for place in places)


def _profile(variables: Mapping[str, str], prefix: PurePosixPath) -> str:
    """For login shells, whose /etc/profile sets PATH anew, and for those that sshd starts."""
    lines = [
        "# The environment, for login shells too. What is set when a container starts stands.",
        f'case ":$PATH:" in *":{prefix}/bin:"*) ;; *) export PATH="{prefix}/bin:$PATH" ;; esac',
    ]
    for name, value in variables.items():
        if name != "PATH" and not name.startswith("NVIDIA_"):
            lines.append(f'[ -n "${{{name}+set}}" ] || export {name}={_quoted(value)}')
    return "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


def _sshd(variables: Mapping[str, str]) -> str:
    """Keys only; and the image's variables for commands run over ssh, which sshd would start with none of them."""
    settings = " ".join(f'"{name}={_escaped(value)}"' for name, value in variables.items())
    return (
        "# Written by envlock for [access] ssh: keys alone open it.\n"
        "PasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\n"
        f"SetEnv {settings}\n"
    )


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
