"""Clear-signed files: gpgv says whether a trusted key signed them, and only the text it vouches for is used."""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envlock.errors import EnvlockError, FaultyInput, MachineLacks

__all__ = ["Trust", "verified_text"]

_BEGIN = b"-----BEGIN PGP SIGNED MESSAGE-----"
_END = b"-----END PGP SIGNATURE-----"
_ARMOUR = re.compile(
    rb"-----BEGIN PGP PUBLIC KEY BLOCK-----[^\n]*\n(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.DOTALL
)
_STRONG_HASHES = {"8", "9", "10", "11", "12", "14"}  # SHA-2 and SHA-3, as RFC 4880 and RFC 9580 number them
_STALE = {"EXPSIG", "EXPKEYSIG", "REVKEYSIG"}
_LIMIT = 60.0  # seconds; gpgv takes some ten milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whose signatures count: keyring files, binary or armoured, and armoured keys as text."""

    keyrings: tuple[Path, ...] = ()
    keys: tuple[str, ...] = ()


def verified_text(signed: bytes, trust: Trust, *, origin: str) -> str:
    """The text of a clear-signed file that at least one trusted key signed, and none signed wrongly.

    A signature by an unknown key is no fault beside a good one: archives sign with old and new keys.
    Raises FaultyInput "debian-signature-bad" or "debian-signature-expired"; MachineLacks "gpgv-missing",
    "gpgv-slow", "debian-keyring-missing" or "debian-key-unknown".
    """
    if not signed.startswith(_BEGIN) or signed.count(_BEGIN) != 1 or not signed.rstrip().endswith(_END):
        raise _bad(origin, "it is not one clear-signed text")
    keyrings = [keyring for keyring in dict.fromkeys(trust.keyrings) if keyring.is_file()]
    if not keyrings and not trust.keys:
        raise MachineLacks(
            f"{origin}: there is no keyring to check the archive's signature with",
            hint="Install the package debian-archive-keyring (apt-get install debian-archive-keyring).",
            code="debian-keyring-missing",
        )
    with tempfile.TemporaryDirectory(prefix="envlock-gpgv-") as scratch:
        folder = Path(scratch)
        contents = [(str(keyring), keyring.read_bytes()) for keyring in keyrings]
        contents += [("a key in apt's sources", key.encode()) for key in trust.keys]
        files = [
            _keyring_file(content, name, folder / f"{number}.gpg") for number, (name, content) in enumerate(contents)
        ]
        status, output = _run_gpgv(signed, files, folder)
    _judge(status, origin)
    try:
        return output.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise _bad(origin, "the signed text is not UTF-8") from exc


def _run_gpgv(signed: bytes, keyrings: Sequence[Path], scratch: Path) -> tuple[list[list[str]], bytes]:
    """Gpgv's status lines, split in words, and the text that the signature covers."""
    message, output = scratch / "signed", scratch / "text"
    message.write_bytes(signed)
    command = ["gpgv", "--homedir", str(scratch), "--status-fd", "1", "--weak-digest", "SHA1"]
    for keyring in keyrings:
        command += ["--keyring", str(keyring)]
    command += ["--output", str(output), str(message)]
    try:
        # The exit status is not asked: it is also non-zero when one of several signing keys is unknown.
        done = subprocess.run(command, capture_output=True, check=False, timeout=_LIMIT)
    except FileNotFoundError as exc:
        raise MachineLacks(
            "gpgv is not installed, and Debian's package index cannot be trusted unchecked",
            hint="Install it (apt-get install gpgv).",
            code="gpgv-missing",
        ) from exc
    except subprocess.TimeoutExpired as exc:
        raise MachineLacks(
            f"gpgv has not come to an end after {_LIMIT:.0f} s",
            hint="Try again when the machine is less busy.",
            code="gpgv-slow",
        ) from exc
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    status = [line.removeprefix("[GNUPG:] ").split() for line in lines if line.startswith("[GNUPG:] ")]
    return status, output.read_bytes() if output.exists() else b""


def _keyring_file(content: bytes, name: str, target: Path) -> Path:
    """Write a keyring in the form that gpgv reads, which armour is not."""
    blocks = _ARMOUR.findall(content)
    try:
        target.write_bytes(b"".join(_dearmour(block) for block in blocks) if blocks else content)
    except binascii.Error as exc:
        raise FaultyInput(
            f"{name}: the armoured key is damaged: {exc}",
            hint="Put the key there again, as its owner publishes it.",
            code="debian-keyring-faulty",
        ) from exc
    return target


def _dearmour(block: bytes) -> bytes:
    """The key in an armoured block: after the headers and an empty line, base64 up to the checksum line."""
    lines = [line.strip() for line in block.splitlines()]
    start = lines.index(b"") + 1 if b"" in lines else 0
    return base64.b64decode(b"".join(line for line in lines[start:] if not line.startswith(b"=")), validate=True)


def _judge(status: list[list[str]], origin: str) -> None:
    words = [line[0] for line in status if line]
    if "BADSIG" in words:
        raise _bad(origin, "a signature does not match the text")
    if words.count("PLAINTEXT") > 1:
        raise _bad(origin, "it holds more than one signed text")
    # gpgv writes a VALIDSIG line for expired keys too, so GOODSIG and VALIDSIG are both wanted, in this order.
    good = any(
        first[0] == "GOODSIG" and valid is not None and _is_strong(valid)
        for first, valid in zip(status, _following_valid(status), strict=True)
        if first
    )
    if good:
        return
    if _STALE & set(words):
        raise FaultyInput(
            f"{origin}: the signature or the key that made it has expired or was revoked",
            hint="Upgrade debian-archive-keyring; if that does not help, use another mirror.",
            code="debian-signature-expired",
        )
    unknown = sorted({line[1] for line in status if line and line[0] == "NO_PUBKEY" and len(line) > 1})
    if unknown:
        raise MachineLacks(
            f"{origin}: signed by {', '.join(unknown)}, a key that is in none of the keyrings",
            hint="Upgrade debian-archive-keyring, or name the archive's keyring in Signed-By of your apt sources.",
            code="debian-key-unknown",
        )
    raise _bad(origin, "no good signature was found")


def _following_valid(status: list[list[str]]) -> list[list[str] | None]:
    """For each status line the VALIDSIG line of the same signature, if one follows."""
    result: list[list[str] | None] = []
    valid: list[str] | None = None
    for line in reversed(status):
        if line and line[0] == "VALIDSIG":
            valid = line
        elif line and line[0] == "NEWSIG":
            valid = None
        result.append(valid)
    return result[::-1]


def _is_strong(valid: list[str]) -> bool:
    # VALIDSIG fingerprint date timestamp expiry version reserved key-algorithm hash-algorithm class [primary]
    hash_field = 8
    return len(valid) > hash_field and valid[hash_field] in _STRONG_HASHES


def _bad(origin: str, why: str) -> EnvlockError:
    return FaultyInput(
        f"{origin}: the signature cannot be accepted: {why}",
        hint="Something between the archive and here changed it (a proxy, a broken mirror): try another mirror.",
        code="debian-signature-bad",
    )
