"""A small world for builds: wheels and packages made in code, a lock of them, and a fetcher that has them all."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import lzma
import platform as host
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from envlock.digest import Digest
from envlock.fetch.download import DownloadReport, Want
from envlock.fetch.store import Store
from envlock.image.artefacts import Artefact
from envlock.image.build import BuildRequest, Outputs, Services, build_image
from envlock.image.built import BuiltImage
from envlock.lock.codec import dumps
from envlock.lock.model import HostContract, Lock, LockedBase, LockedDeb, LockedWheel, MadeBy
from envlock.platforms import Platform
from envlock.progress import NO_PROGRESS, Progress, Task
from envlock.spec.model import (
    AccessSpec,
    BaseSpec,
    DataKind,
    DataSpec,
    EnvSpec,
    ImageSpec,
    PythonSpec,
    TargetSpec,
)

FULL = host.python_version()
PYTHON = ".".join(FULL.split(".")[:2])
SPEC_DIGEST = Digest.of(b"the spec")


def wheel_bytes(name: str, version: str = "1.0", files: Mapping[str, bytes] | None = None) -> bytes:
    """An honest pure wheel; by default one module of its own name."""
    info = f"{name}-{version}.dist-info"
    held = dict(files if files is not None else {f"{name}/__init__.py": f"NAME = {name!r}\n".encode()})
    held[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    held[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = [f"{path},sha256={_urlsafe(data)},{len(data)}" for path, data in held.items()]
    held[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in held.items():
            archive.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def deb_bytes(name: str, version: str = "1.0", files: Mapping[str, bytes] | None = None) -> bytes:
    """A package; files whose contents begin with #! are programs."""
    control = (
        f"Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: N <n@example.org>\nDescription: x\n"
    )
    data = dict(files if files is not None else {f"usr/share/{name}/text": name.encode()})
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", gzip.compress(_tar({"control": control.encode()}), mtime=0)),
        ("data.tar.xz", lzma.compress(_tar(data))),
    ]
    out = b"!<arch>\n"
    for member, body in members:
        out += f"{member:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(body):<10}`\n".encode() + body
        out += b"\n" * (len(body) % 2)
    return out


def _tar(files: Mapping[str, bytes]) -> bytes:
    folders = {str(parent) for path in files for parent in PurePosixPath(path).parents if str(parent) != "."}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for folder in sorted(folders):
            info = tarfile.TarInfo(f"./{folder}")
            info.type, info.mode = tarfile.DIRTYPE, 0o700 if folder == "root" else 0o755
            tar.addfile(info)
        for path, data in files.items():
            info = tarfile.TarInfo(f"./{path}")
            info.size, info.mode = len(data), 0o755 if data.startswith(b"#!") else 0o644
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def python_deb() -> bytes:
    """A package whose Python is this one: what should be the ELF loader is a script that starts it."""
    loader = f'#!/bin/sh\nshift 4\nunset PYTHONHOME\nexec {sys.executable} "$@"\n'
    files = {
        f"usr/lib/x86_64-linux-gnu/{PurePosixPath(Platform.AMD64.loader).name}": loader.encode(),
        f"usr/bin/python{PYTHON}": b"#!/bin/sh\n",
        f"usr/lib/python{PYTHON}/textwrap.py": b"def dedent(text):\n    return text\n",
    }
    return deb_bytes(f"python{PYTHON}-minimal", FULL, files)


def flip(path: Path) -> None:
    """Change one byte amid a file of the store, as a disk may: neither its size nor its rights."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(0o444)


@dataclass
class Fetched:
    """A fetcher that serves from memory, counts, and can be told to fail on a label."""

    store: Store
    served: dict[Digest, bytes]
    fetched: list[str] = field(default_factory=list)

    def fetch(self, wants: Sequence[Want], *, on_ready: Callable[[Want, Path], None] | None = None) -> DownloadReport:
        size = 0
        for want in wants:
            data = self.served[want.sha256]
            self.fetched.append(want.label)
            self.store.put(data)
            size += len(data)
            if on_ready is not None:
                on_ready(want, self.store.path(want.sha256))
        return DownloadReport(bytes_fetched=size, reused=0, seconds=0.0)


@dataclass
class Nowhere:
    """An origin without addresses; wheels that it can build stand in `rebuilt`."""

    folder: Path
    rebuilt: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def urls(self, artefact: Artefact) -> tuple[str, ...]:  # noqa: ARG002 (Origin)
        return ()

    def rebuild(self, wheel: LockedWheel) -> Path:
        self.asked.append(wheel.name)
        path = self.folder / wheel.file
        path.write_bytes(self.rebuilt[wheel.name])
        return path


@dataclass
class Talk:
    """Progress that remembers what was said."""

    lines: list[str] = field(default_factory=list)

    def start(self, label: str, *, total: int | None, unit: str = "bytes") -> Task:
        return NO_PROGRESS.start(label, total=total, unit=unit)

    def say(self, text: str) -> None:
        self.lines.append(text)


def contract(platform: Platform = Platform.AMD64, cuda: str | None = None) -> HostContract:
    driver = None if cuda is None else "525.60.13"
    return HostContract(
        platform=platform, cuda=cuda, driver=driver, architectures_known=False, cubin=(), ptx=(), glibc="2.17"
    )


def spec_of(folder: Path, **changes: object) -> EnvSpec:
    """A specification; `changes` replace its fields."""
    spec = EnvSpec(
        file=folder / "envlock.toml",
        name="small",
        python_version=PYTHON,
        platforms=(Platform.AMD64,),
        python=PythonSpec(requirements=()),
        indexes=(),
        target=TargetSpec(),
        base=BaseSpec(),
        image=ImageSpec(),
        data=(),
        access=AccessSpec(),
        sources=(),
        digest=SPEC_DIGEST,
    )
    return replace(spec, **changes)  # type: ignore[arg-type] # a test names fields of the class


def data_spec(path: str, kind: DataKind = DataKind.DATA_DISK, **env: str) -> DataSpec:
    variables = {name: PurePosixPath(value) for name, value in env.items()}
    return DataSpec(path=PurePosixPath(path), kind=kind, purpose="base models", env=variables)


def locked_wheel(name: str, data: bytes, version: str = "1.0", **changes: object) -> LockedWheel:
    wheel = LockedWheel(
        name=name,
        version=version,
        file=f"{name.replace('-', '_')}-{version}-py3-none-any.whl",
        size=len(data),
        sha256=Digest.of(data),
        index="default",
        platforms=(Platform.AMD64,),
    )
    return replace(wheel, **changes)  # type: ignore[arg-type] # a test names fields of the class


def locked_deb(name: str, data: bytes, version: str = "1.0", **changes: object) -> LockedDeb:
    deb = LockedDeb(
        name=name,
        version=version,
        architecture="amd64",
        archive="debian",
        pool=f"pool/main/{name[0]}/{name}/{name}_{version}_amd64.deb",
        size=len(data),
        sha256=Digest.of(data),
        platforms=(Platform.AMD64,),
    )
    return replace(deb, **changes)  # type: ignore[arg-type] # a test names fields of the class


def lock_of(wheels: Sequence[LockedWheel] = (), debs: Sequence[LockedDeb] = (), *, cuda: str | None = None) -> Lock:
    return Lock(
        name="small",
        spec=SPEC_DIGEST,
        made_by=MadeBy(envlock="0", resolver="uv", resolver_version="0"),
        python=PYTHON,
        platforms=(Platform.AMD64,),
        base=LockedBase(suite="trixie", python=FULL, glibc="2.41", debs=tuple(debs)),
        wheels=tuple(sorted(wheels, key=lambda wheel: wheel.name)),
        contracts=(contract(cuda=cuda),),
    )


@dataclass
class World:
    """A folder with a spec, a store and all artefacts."""

    folder: Path
    wheels: dict[str, bytes] = field(
        default_factory=lambda: {"alpha": wheel_bytes("alpha"), "beta": wheel_bytes("beta")}
    )
    debs: dict[str, bytes] = field(default_factory=lambda: {"base-files": deb_bytes("base-files")})
    python: bool = False
    store_name: str = "store"

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.talk = Talk()
        self.store = Store(self.folder / self.store_name)
        self.origin = Nowhere(self.folder)
        if self.python:
            self.debs[f"python{PYTHON}-minimal"] = python_deb()
        served = {Digest.of(data): data for data in (*self.wheels.values(), *self.debs.values())}
        self.fetcher = Fetched(self.store, served)

    def lock(self, *, cuda: str | None = None) -> Lock:
        wheels = [locked_wheel(name, data) for name, data in self.wheels.items()]
        debs = [
            locked_deb(name, data, FULL if name.startswith("python3") else "1.0") for name, data in self.debs.items()
        ]
        return lock_of(wheels, sorted(debs, key=lambda deb: deb.name), cuda=cuda)

    def outputs(self, **changes: object) -> Outputs:
        out = self.folder / "out"
        outputs = Outputs(layout=out / "image", manifest=out / "manifest.json", tag="envlock/small:latest")
        return replace(outputs, **changes)  # type: ignore[arg-type] # a test names fields of the class

    def build(
        self,
        spec: EnvSpec | None = None,
        lock: Lock | None = None,
        *,
        outputs: Outputs | None = None,
        workers: int = 1,
        progress: Progress | None = None,
    ) -> BuiltImage:
        locked = lock or self.lock()
        wanted = spec or spec_of(self.folder)
        request = BuildRequest(
            spec=wanted,
            lock=locked,
            lock_text=dumps(locked),
            platforms=wanted.platforms,
            outputs=outputs or self.outputs(),
            workers=workers,
        )
        services = Services(
            store=self.store,
            fetcher=self.fetcher,
            origin=self.origin,
            progress=progress or self.talk,
            environ={"PATH": "/usr/bin:/bin"},
            machine="x86_64",
            clock=time.monotonic,
        )
        return build_image(request, services)
