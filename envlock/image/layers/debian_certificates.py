"""The CA bundle and its hashed links, as update-ca-certificates and `openssl rehash` make them."""

from __future__ import annotations

import binascii
import re
import ssl
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha1

from envlock.errors import FaultyInput
from envlock.image.layers.entries import Entry, File, Symlink

__all__ = ["certificate_entries", "subject_hash"]

_SHARE = "usr/share/ca-certificates/"
_CERTS = "etc/ssl/certs"
_CONF_HEAD = """\
# The certificates of /usr/share/ca-certificates that are in /etc/ssl/certs; read by update-ca-certificates(8).
# A line that begins with ! is a certificate that was deselected.
"""
# ASN.1 string types that OpenSSL writes as UTF-8 before hashing, and how each is decoded
_STRINGS = {0x0C: "utf-8", 0x13: "latin-1", 0x14: "latin-1", 0x16: "latin-1", 0x1A: "latin-1"}
_WIDE_STRINGS = {0x1C: "utf-32-be", 0x1E: "utf-16-be"}
_UTF8, _SET, _SEQUENCE, _VERSION = 0x0C, 0x31, 0x30, 0xA0


def certificate_entries(shipped: Mapping[str, bytes]) -> Iterator[Entry]:
    """What update-ca-certificates makes of the certificates below usr/share/ca-certificates, by path.

    Every certificate that the package brings is taken, which is its default answer.
    """
    names = sorted(path.removeprefix(_SHARE) for path in shipped if path.startswith(_SHARE) and path.endswith(".crt"))
    yield File(path="etc/ca-certificates.conf", body=(_CONF_HEAD + "".join(f"{n}\n" for n in names)).encode())
    bundle: list[bytes] = []
    seen: Counter[str] = Counter()
    for name in names:
        body = shipped[_SHARE + name]
        bundle.append(body if body.endswith(b"\n") else body + b"\n")
        pem = re.sub(r"[ ,]", "_", re.sub(r"[()]", "=", name.rpartition("/")[2].removesuffix(".crt"))) + ".pem"
        yield Symlink(path=f"{_CERTS}/{pem}", target=f"/{_SHARE}{name}")
        hashed = subject_hash(body, name)
        yield Symlink(path=f"{_CERTS}/{hashed}.{seen[hashed]}", target=pem)
        seen[hashed] += 1
    yield File(path=f"{_CERTS}/ca-certificates.crt", body=b"".join(bundle))


def subject_hash(pem: bytes, name: str) -> str:
    """OpenSSL's hash of a certificate's subject (8 hex digits), by which it finds a CA in a directory.

    It is the head of the SHA-1 over the canonical form of the name: strings in UTF-8, in lower case, with blanks
    squeezed, and no outer SEQUENCE (x509_name_canon in OpenSSL). Raise FaultyInput on what is no certificate.
    """
    try:
        der = ssl.PEM_cert_to_DER_cert(pem.decode("ascii").strip())
        canonical = b"".join(_canonical_part(part) for _, part in _items(_subject(der)))
    except (ValueError, IndexError, binascii.Error) as exc:
        raise FaultyInput(
            f"{name}: not a certificate: {exc}",
            hint="The ca-certificates package in the lock is damaged; fetch it again.",
            code="certificate-faulty",
        ) from exc
    digest = sha1(canonical, usedforsecurity=False).digest()
    return f"{int.from_bytes(digest[:4], 'little'):08x}"


def _subject(der: bytes) -> bytes:
    """The content of the subject; it follows [version,] serial, algorithm, issuer and validity (RFC 5280, 4.1)."""
    _, certificate = next(_items(der))
    _, to_be_signed = next(_items(certificate))
    fields = [item for item in _items(to_be_signed) if item[0] != _VERSION]
    return fields[4][1]


def _canonical_part(part: bytes) -> bytes:
    """One relative name: a SET of (type, value) SEQUENCEs."""
    pairs = []
    for _, pair in _items(part):
        (kind_tag, kind), (value_tag, value) = _items(pair)
        pairs.append(_item(_SEQUENCE, _item(kind_tag, kind) + _item(*_canonical_value(value_tag, value))))
    return _item(_SET, b"".join(sorted(pairs)))


def _canonical_value(tag: int, value: bytes) -> tuple[int, bytes]:
    encoding = _STRINGS.get(tag) or _WIDE_STRINGS.get(tag)
    if encoding is None:
        return tag, value
    text = value.decode(encoding).encode("utf-8")
    # ASCII only, as OpenSSL does: bytes.lower and bytes.split leave other bytes alone
    return _UTF8, b" ".join(text.lower().split())


def _items(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each DER item."""
    while data:
        tag, length, head = data[0], data[1], 2
        if length & 0x80:
            head += length & 0x7F
            length = int.from_bytes(data[2:head], "big")
        content = data[head : head + length]
        if len(content) != length:
            raise ValueError("it is cut short")
        yield tag, content
        data = data[head + length :]


def _item(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 0x80:  # noqa: PLR2004 (DER's short form)
        return bytes((tag, length)) + content
    size = (length.bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + length.to_bytes(size, "big") + content
