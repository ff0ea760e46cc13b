"""Signed Debian archives for tests: a key of gpg's making, folders as mirrors have them, served on loopback."""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

__all__ = ["NOW_TEXT", "Archive", "Mirror", "SigningKey", "serve", "signing_key", "stanza"]

_seconds = count()
NOW_TEXT = "Tue, 01 Dec 2026 12:00:00 UTC"


def stanza(name: str, version: str = "1.0", *, arch: str = "all", **fields: str) -> str:
    """An entry of a Packages file; keywords are fields, `pre_depends="x"` is Pre-Depends. None drops a field."""
    digest = hashlib.sha256(f"{name} {version} {arch}".encode()).hexdigest()
    entry = {
        "Package": name,
        "Version": version,
        "Architecture": arch,
        "Priority": "optional",
        "Description": f"the package {name}",
        "Filename": f"pool/main/{name[0]}/{name}/{name}_{version.rpartition(':')[2]}_{arch}.deb",
        "Size": "1000",
        "SHA256": digest,
    }
    entry |= {"-".join(part.capitalize() for part in key.split("_")): value for key, value in fields.items()}
    if "Sha256" in entry:
        entry["SHA256"] = entry.pop("Sha256")
    return "".join(f"{key}: {value}\n" for key, value in entry.items() if value)


@dataclass(frozen=True)
class SigningKey:
    """A secret key in a home of its own."""

    home: Path
    keyring: Path
    armoured: str
    faked_time: tuple[str, ...] = ()

    def clearsign(self, text: str, *options: str) -> bytes:
        """The text with this key's signature around it."""
        command = [
            "gpg",
            "--homedir",
            str(self.home),
            "--batch",
            "--quiet",
            *self.faked_time,
            *options,
            "--clearsign",
        ]
        return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout

    def take_in(self, other: SigningKey) -> None:
        """Have this home sign with another one's key too."""
        export = ["gpg", "--homedir", str(other.home), "--batch", "--export-secret-keys"]
        secret = subprocess.run(export, capture_output=True, check=True).stdout
        take = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--import"]
        subprocess.run(take, input=secret, capture_output=True, check=True)


@contextmanager
def signing_key(
    *, name: str = "Test Archive", created: str | None = None, expires: str = "never", algorithm: str = "ed25519"
) -> Iterator[SigningKey]:
    """Make a key; `created` ("20200101T000000") fakes the clock of all that is done with it."""
    home = Path(tempfile.mkdtemp(prefix="gpg-"))  # a short path: gpg's agent has a socket in it
    faked = ("--faked-system-time", f"{created}!") if created else ()
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", *faked]
    try:
        command = [
            *gpg,
            "--passphrase",
            "",
            "--quick-generate-key",
            f"{name} <{name.lower().replace(' ', '-')}@example.org>",
            algorithm,
            "sign",
        ]
        subprocess.run([*command, expires], check=True, capture_output=True)
        keyring = home / "keyring.gpg"
        keyring.write_bytes(subprocess.run([*gpg, "--export"], check=True, capture_output=True).stdout)
        armoured = subprocess.run([*gpg, "--armor", "--export"], check=True, capture_output=True).stdout.decode()
        yield SigningKey(home, keyring, armoured, faked)
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=False, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)


@dataclass
class Archive:
    """An archive's root folder; suites are written into it."""

    root: Path
    key: SigningKey

    def write_suite(
        self,
        suite: str,
        packages: Mapping[str, Sequence[str]],
        *,
        codename: str | None = None,
        alias: str = "stable",
        fields: Mapping[str, str] | None = None,
    ) -> Path:
        """Write a suite's index with these stanzas for each architecture, and sign it; gives the suite's folder."""
        folder = self.root / "dists" / suite
        listed: list[str] = []
        for architecture, stanzas in packages.items():
            text = "\n".join(stanzas).encode()
            for name, data in (("Packages", text), ("Packages.xz", lzma.compress(text))):
                path = f"main/binary-{architecture}/{name}"
                digest = hashlib.sha256(data).hexdigest()
                listed.append(f" {digest} {len(data)} {path}")
                if name != "Packages":  # as on Debian's mirrors: listed, but only there compressed
                    put(folder / path, data)
                    put(folder / Path(path).parent / "by-hash" / "SHA256" / digest, data)
        codename = codename or suite
        head = {
            "Origin": "Debian",
            "Suite": codename.replace(codename.partition("-")[0], alias, 1),
            "Codename": codename,
            "Date": NOW_TEXT,
            "Acquire-By-Hash": "yes",
            "Architectures": " ".join(packages),
            "Components": "main",
            **(fields or {}),
        }
        release = "".join(f"{key}: {value}\n" for key, value in head.items() if value)
        self.sign(suite, release + "SHA256:\n" + "\n".join(listed) + "\n")
        return folder

    def sign(self, suite: str, release: str) -> None:
        """Write this text as the suite's signed release."""
        path = self.inrelease(suite)
        put(path, self.key.clearsign(release))
        # Servers compare whole seconds, and tests write more than once in one.
        moment = 1_780_000_000 + next(_seconds)
        os.utime(path, (moment, moment))

    def inrelease(self, suite: str) -> Path:
        """The suite's signed release."""
        return self.root / "dists" / suite / "InRelease"


def put(path: Path, data: bytes) -> None:
    """Write a file, folders included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@dataclass
class Mirror:
    """A served folder: its URL, and the (status, path) of every answer so far."""

    url: str
    answers: list[tuple[int, str]] = field(default_factory=list)

    def paths(self, status: int = 200) -> list[str]:
        """The paths that were answered like this."""
        return [path for code, path in self.answers if code == status]


class _Handler(SimpleHTTPRequestHandler):
    answers: list[tuple[int, str]]

    def __init__(self, *args: object, mirror: Mirror, **keywords: object) -> None:
        self.answers = mirror.answers
        super().__init__(*args, **keywords)  # type: ignore[arg-type]  # the server passes what the class takes

    def log_request(self, code: object = "-", size: object = "-") -> None:  # noqa: ARG002 (http.server)
        self.answers.append((int(str(getattr(code, "value", code))), self.path))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (http.server)
        pass


@contextmanager
def serve(root: Path) -> Iterator[Mirror]:
    """Serve a folder on loopback for as long as the block runs."""
    mirror = Mirror("")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, mirror=mirror, directory=str(root)))
    mirror.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield mirror
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
