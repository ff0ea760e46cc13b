"""Lock and spec into the ordered layers of an image: pure, and the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from envlock.errors import FaultyInput
from envlock.image.canonical import canonical_json
from envlock.image.directories import leading_directories
from envlock.image.layers.copied import CopiedTree
from envlock.image.layers.entries import Directory
from envlock.image.packing import pack
from envlock.image.recipes import (
    BaseRecipe,
    CopyRecipe,
    DebianRecipe,
    Recipe,
    StdlibRecipe,
    VenvRecipe,
    WheelsRecipe,
)
from envlock.image.user import ImageUser, image_user
from envlock.lock.model import Lock, LockedDeb, LockedWheel
from envlock.platforms import Platform
from envlock.spec.model import EnvSpec

__all__ = ["EPOCH", "LAYER_LIMIT", "ImagePlan", "copy_places", "plan_image"]

EPOCH = 946684800  # 2000-01-01, as in layers
LAYER_LIMIT = 90  # the usual runtime's own is 127; what is built upon an image needs some, too

_MIB = 1 << 20
_BIG = 24 * _MIB  # a wheel of this size has a layer of its own
# Small: compiling makes pure Python the costliest by the byte, and a bump of one wheel rebuilds its bucket.
_WHEEL_BUCKET = 8 * _MIB
_WHEEL_BUCKETS = 16
_DEB_BUCKET = 16 * _MIB
_DEB_BUCKETS = 8
_COPIES = 8  # more copies than these share one layer
_PYTHON_DEB = re.compile(r"(lib)?python3")
_NVIDIA = re.compile(r"nvidia-|cuda-|triton$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan:
    """Everything about an image of one platform but what only its finished layers tell.

    `recipes` are all layers but the last, which holds the manifest. `bytecode` is the full version of the Python that
    compiles, None for an image without bytecode.
    """

    spec: EnvSpec
    lock: Lock
    platform: Platform
    recipes: tuple[Recipe, ...]
    copies: tuple[CopiedTree, ...]
    user: ImageUser
    bytecode: str | None
    epoch: int


def plan_image(
    spec: EnvSpec,
    lock: Lock,
    platform: Platform,
    *,
    copies: tuple[CopiedTree, ...] = (),
    can_compile: bool = True,
    epoch: int = EPOCH,
) -> ImagePlan:
    """Decide on the layers, least likely to change first: base, NVIDIA's wheels, torch, the others, the user's files.

    `can_compile` says whether a Python of the locked version can be run here. Raise FaultyInput for a platform that
    is not in the lock.
    """
    if platform not in lock.platforms:
        raise FaultyInput(
            f"the lock of {lock.name} is for {', '.join(lock.platforms)}, not for {platform}",
            hint=f'Add "{platform}" to platforms under [env] and lock again.',
            code="platform-not-locked",
        )
    if lock.conda is not None:
        raise FaultyInput(
            f"the lock of {lock.name} has a conda side, which this envlock locks and cannot build yet",
            hint=f"Install {lock.conda.file} with conda-lock or micromamba, or leave [conda] out.",
            code="conda-not-built",
        )
    user = image_user(spec.image.user)
    bytecode = lock.base.python if spec.image.bytecode and can_compile else None
    before = (*_base_recipes(spec, lock.debs_for(platform), user, bytecode), _venv(spec, lock, user))
    after = _copy_recipes(copies, user)
    room = LAYER_LIMIT - len(before) - len(after) - 1
    wheels = tuple(_wheel_recipes(spec, lock, lock.wheels_for(platform), bytecode=bytecode, room=room))
    return ImagePlan(
        spec=spec,
        lock=lock,
        platform=platform,
        recipes=(*before, *wheels, *after),
        copies=copies,
        user=user,
        bytecode=bytecode,
        epoch=epoch,
    )


def _base_recipes(
    spec: EnvSpec, debs: tuple[LockedDeb, ...], user: ImageUser, bytecode: str | None
) -> Iterable[Recipe]:
    buckets = pack(debs, name=lambda deb: deb.name, size=lambda deb: deb.size, target=_DEB_BUCKET, most=_DEB_BUCKETS)
    for number, bucket in enumerate(buckets, 1):
        yield DebianRecipe(title=f"Debian packages, {number} of {len(buckets)}", debs=bucket)
    yield BaseRecipe(debs=debs, users=(user.added,) if user.added else (), apt_sources=_apt_sources(spec))
    sources = tuple(deb for deb in debs if _PYTHON_DEB.match(deb.name))
    if bytecode is not None and sources:
        yield StdlibRecipe(debs=sources, bytecode=bytecode)


def _apt_sources(spec: EnvSpec) -> str | None:
    """The image's sources of apt: only the mirror that the spec itself names, since this machine's is no other's."""
    if spec.base.mirror is None:
        return None
    suite, mirror = spec.base.debian, spec.base.mirror.rstrip("/")
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    parts = ((mirror, f"{suite} {suite}-updates"), (f"{mirror}-security", f"{suite}-security"))
    return "\n".join(
        f"Types: deb\nURIs: {url}\nSuites: {suites}\nComponents: main\nSigned-By: {keyring}\n"
        for url, suites in parts
    )


def _venv(spec: EnvSpec, lock: Lock, user: ImageUser) -> VenvRecipe:
    return VenvRecipe(
        prefix=_prefix(spec), parents=_parents(spec, user), python=lock.python, python_full=lock.base.python
    )


def _prefix(spec: EnvSpec) -> str:
    return str(spec.image.prefix).lstrip("/")


def _parents(spec: EnvSpec, user: ImageUser) -> tuple[Directory, ...]:
    return leading_directories(_prefix(spec), user)


def _wheel_recipes(
    spec: EnvSpec, lock: Lock, wheels: tuple[LockedWheel, ...], *, bytecode: str | None, room: int
) -> Iterable[WheelsRecipe]:
    def recipe(title: str, held: tuple[LockedWheel, ...]) -> WheelsRecipe:
        return WheelsRecipe(
            title=title,
            wheels=held,
            direct_urls=tuple((wheel.sha256, text) for wheel in held if (text := _direct_url(wheel))),
            prefix=_prefix(spec),
            parents=_parents(spec, image_user(spec.image.user)),
            python=lock.python,
            bytecode=bytecode,
        )

    singles = _singles(wheels, room - 2 * _WHEEL_BUCKETS)
    for wheel in singles:
        yield recipe(f"{wheel.name} {wheel.version}", (wheel,))
    small = [wheel for wheel in wheels if wheel not in singles]
    for what, chosen in (("small wheels", _is_public), ("wheels of one's own", _is_own)):
        buckets = _buckets(small, chosen)
        for number, bucket in enumerate(buckets, 1):
            yield recipe(f"{what}, {number} of {len(buckets)}", bucket)


def _singles(wheels: tuple[LockedWheel, ...], room: int) -> tuple[LockedWheel, ...]:
    """The wheels with layers of their own: the big ones, the biggest where not all of them can have one."""
    big = sorted((wheel for wheel in wheels if wheel.size >= _BIG), key=lambda wheel: (-wheel.size, wheel.name))
    return tuple(sorted(big[:room], key=lambda wheel: (_turn(wheel), wheel.name)))


def _turn(wheel: LockedWheel) -> int:
    """How seldom a wheel changes: NVIDIA's libraries, torch, the others, the user's own."""
    if _is_own(wheel):
        return 3
    if _NVIDIA.match(wheel.name):
        return 0
    return 1 if wheel.name == "torch" else 2


def _is_own(wheel: LockedWheel) -> bool:
    return wheel.index in {"local", "direct", "built"}


def _is_public(wheel: LockedWheel) -> bool:
    return not _is_own(wheel)


def _buckets(
    wheels: Iterable[LockedWheel], chosen: Callable[[LockedWheel], bool]
) -> tuple[tuple[LockedWheel, ...], ...]:
    return pack(
        filter(chosen, wheels),
        name=lambda wheel: wheel.name,
        size=lambda wheel: wheel.size,
        target=_WHEEL_BUCKET,
        most=_WHEEL_BUCKETS,
    )


def _direct_url(wheel: LockedWheel) -> str | None:
    """The text of direct_url.json (PEP 610) where it is due: a wheel that a URL named, not an index.

    A local file's has a path of the locking machine in it, which means nothing in the image: it has none.
    """
    if wheel.direct_url is not None:
        archive = {"hash": f"sha256={wheel.sha256.hex}", "hashes": {"sha256": wheel.sha256.hex}}
        return canonical_json({"url": wheel.direct_url, "archive_info": archive}).decode()
    source = wheel.built_from
    if source is None or source.url is None or source.commit is None:
        return None
    place: dict[str, object] = {"url": source.url, "vcs_info": {"vcs": "git", "commit_id": source.commit}}
    if source.subdirectory is not None:
        place["subdirectory"] = source.subdirectory
    return canonical_json(place).decode()


def _copy_recipes(copies: tuple[CopiedTree, ...], user: ImageUser) -> tuple[CopyRecipe, ...]:
    if not copies:
        return ()
    apart = [(tree,) for tree in copies] if len(copies) <= _COPIES else [copies]
    own = copy_places(copies)
    return tuple(CopyRecipe(trees=trees, user=user, own=own) for trees in apart)


def copy_places(copies: Iterable[CopiedTree]) -> tuple[str, ...]:
    """Where folders are copied to, relative to the root."""
    return tuple(str(tree.to).strip("/") for tree in copies if tree.files[0].is_directory)
