"""What the tests of this room build in code: wheels, source distributions, an index that serves them, a resolver."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import sys
import tarfile
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from envlock.fetch.http import Http
from envlock.fetch.model import HttpSettings, IndexFile, IndexUrl
from envlock.fetch.simple import IndexClient
from envlock.fetch.store import Store
from envlock.lock.wheels.resolve import WheelRequest, WheelResolver
from envlock.lock.wheels.target import Target
from envlock.platforms import Platform
from envlock.progress import Task
from envlock.spec.model import IndexSpec, Requirement

HOST = f"{sys.version_info[0]}.{sys.version_info[1]}"
TARGET = Target(python="3.13", python_full="3.13.5", machine="x86_64", glibc="2.41")
PLACE = IndexUrl(name="default", url="https://index.example/simple")

BACKEND = '''
"""A build backend that packs what is there, as untidily as it can."""
import os, time, zipfile

NAME, VERSION, TAG, REQUIRES, WANTED = {name!r}, {version!r}, {tag!r}, {requires!r}, {wanted!r}

def get_requires_for_build_wheel(config_settings=None):
    return WANTED

def build_wheel(directory, config_settings=None, metadata_directory=None):
    {before}
    info = f"{{NAME}}-{{VERSION}}.dist-info"
    file = f"{{NAME}}-{{VERSION}}-{{TAG}}.whl"
    entries = [(path, open(path, "rb").read()) for path in set(os.listdir(".")) if path.endswith(".py")]
    metadata = f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: {{VERSION}}\\n"
    metadata += "".join(f"Requires-Dist: {{each}}\\n" for each in REQUIRES)
    entries.append((f"{{info}}/METADATA", metadata.encode()))
    pure = str(TAG.endswith("any")).lower()
    about = f"Wheel-Version: 1.0\\nRoot-Is-Purelib: {{pure}}\\nTag: {{TAG}}\\n"
    entries.append((f"{{info}}/WHEEL", about.encode()))
    entries.append((f"{{info}}/RECORD", b"wrong"))
    with zipfile.ZipFile(os.path.join(directory, file), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in entries:
            archive.writestr(zipfile.ZipInfo(path, time.localtime()[:6]), data)
    return file
'''


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: tuple[str, ...] = (),
    tags: str = "py3-none-any",
    requires_python: str | None = None,
    files: Mapping[str, str] | None = None,
) -> Path:
    """A small sound wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Python: {requires_python}"] if requires_python else []
    lines += [f"Requires-Dist: {each}" for each in requires]
    extras = sorted({each.split("extra ==")[1].strip(" '\"") for each in requires if "extra ==" in each})
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    pure = str(tags.endswith("-any")).lower()
    contents = dict(files or {f"{name.replace('-', '_')}.py": f"version = {version!r}\n"})
    contents |= {
        f"{info}/METADATA": "\n".join(lines) + "\n\nA package.\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: {pure}\nTag: {tags}\n",
    }
    record = [f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in contents.items()]
    path = folder / f"{stem}-{tags}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, text in contents.items():
            archive.writestr(inside, text)
        archive.writestr(f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n")
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def backend_source(
    name: str,
    version: str,
    *,
    requires: tuple[str, ...] = (),
    build_requires: tuple[str, ...] = (),
    wanted: tuple[str, ...] = (),
    tag: str = "py3-none-any",
    before: str = "pass",
) -> dict[str, str]:
    """The files of a source tree that brings its own backend. `before` is a line that its build runs first."""
    module = name.replace("-", "_")
    backend = BACKEND.format(
        name=module, version=version, tag=tag, requires=list(requires), wanted=list(wanted), before=before
    )
    stated = ", ".join(f'"{each}"' for each in build_requires)
    pyproject = f'[build-system]\nrequires = [{stated}]\nbuild-backend = "backend"\nbackend-path = ["tools"]\n'
    return {"pyproject.toml": pyproject, "tools/backend.py": backend, f"{module}.py": f"version = {version!r}\n"}


def make_sdist(folder: Path, name: str, version: str, files: Mapping[str, str]) -> Path:
    """A source distribution of these files."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for inside, text in files.items():
            info = tarfile.TarInfo(f"{name}-{version}/{inside}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def index_file(file: str, **more: object) -> IndexFile:
    """A file as an index lists it."""
    return IndexFile(file=file, url=f"https://files.example/{file}", **more)  # type: ignore[arg-type]  # field names


class Talk:
    """Progress that remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.labels: list[str] = []

    def start(self, label: str, *, total: int | None, unit: str = "bytes") -> Task:  # noqa: ARG002 (Progress)
        self.labels.append(label)
        return self

    def say(self, text: str) -> None:
        self.lines.append(text)

    def advance(self, amount: int) -> None:
        pass

    def finish(self) -> None:
        pass


@dataclass
class Upstream:
    """A simple index on the loopback address. `extra` gives more JSON fields by file name."""

    folder: Path
    extra: dict[str, dict[str, object]] = field(default_factory=dict)
    hashes: bool = True
    metadata: bool = True
    asked: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                upstream.asked.append(self.path)
                kind, body = upstream.answer(self.path)
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's signature)
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/simple/"

    def file_url(self, path: Path) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/files/{path.name}"

    def answer(self, path: str) -> tuple[str, bytes | None]:
        name = path.rstrip("/").rpartition("/")[2]
        if path.startswith("/files/"):
            file = self.folder / name
            if name.endswith(".metadata"):
                with zipfile.ZipFile(file.with_suffix("")) as archive:
                    inside = next(each for each in archive.namelist() if each.endswith("/METADATA"))
                    return "text/plain", archive.read(inside)
            return "application/octet-stream", file.read_bytes() if file.is_file() else None
        files = [self._listed(file) for file in sorted(self.folder.iterdir()) if _project(file) == name]
        if not files:
            return "text/plain", None
        page = {"meta": {"api-version": "1.1"}, "name": name, "files": files}
        return "application/vnd.pypi.simple.v1+json", json.dumps(page).encode()

    def _listed(self, file: Path) -> dict[str, object]:
        hashes = {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()} if self.hashes else {}
        listed = {"filename": file.name, "url": f"/files/{file.name}", "hashes": hashes, "size": file.stat().st_size}
        if self.metadata and file.suffix == ".whl":
            listed["core-metadata"] = True
        return listed | self.extra.get(file.name, {})


def _project(file: Path) -> str:
    stem = file.name.split("-")[0] if file.suffix == ".whl" else file.name.rpartition("-")[0]
    return stem.replace("_", "-").lower()


def client_for(tmp_path: Path) -> tuple[IndexClient, Store]:
    """A client and its store, on an empty store."""
    store = Store(tmp_path / "store")
    return IndexClient(Http(HttpSettings(attempts=1, read_timeout=20)), store), store


def resolver_for(
    tmp_path: Path, *indexes: str, spec_indexes: tuple[IndexSpec, ...] = (), talk: Talk | None = None
) -> WheelResolver:
    """A resolver over these indexes, on a store below `tmp_path`."""
    client, store = client_for(tmp_path)
    return WheelResolver(
        client=client,
        store=store,
        indexes=[IndexUrl(name="default", url=url) for url in indexes],
        spec_indexes=spec_indexes,
        environ=dict(os.environ),
        progress=talk or Talk(),
    )


def request(*requirements: str, **more: object) -> WheelRequest:
    """A request for the host's interpreter, so that both resolvers serve it."""
    values: dict[str, object] = {
        "requirements": tuple(
            Requirement(text=text, origin="envlock.toml: python.requirements") for text in requirements
        ),
        "constraints": (),
        "platform": Platform.AMD64,
        "python": HOST,
        "python_full": f"{HOST}.2",
        "glibc": "2.36",
        "resolver": "uv",
        "exclude_newer": None,
        "allow_sdist": frozenset(),
        "allow_pure_sdist": False,
        "pins": {},
        "spec_folder": Path("/spec"),
    }
    return WheelRequest(**values | more)  # type: ignore[arg-type]  # field names


def constraint(text: str) -> Requirement:
    return Requirement(text=text, origin="envlock.toml: python.constraints")
