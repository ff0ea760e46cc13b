"""Wheels with nothing but their metadata, for resolvers that look into the file itself."""

from __future__ import annotations

import io
import zipfile

from packaging.version import Version

__all__ = ["stub_name", "stub_wheel"]

_WHEEL = "Wheel-Version: 1.0\nGenerator: envlock\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def stub_name(name: str, version: Version) -> str:
    """The file name under which a version is shown to resolvers: one that fits whatever the resolver runs on."""
    return f"{name.replace('-', '_')}-{version}-py3-none-any.whl"


def stub_wheel(name: str, version: Version, metadata: bytes) -> bytes:
    """A wheel of that name that holds METADATA alone."""
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{folder}/METADATA", metadata)
        archive.writestr(f"{folder}/WHEEL", _WHEEL)
        archive.writestr(f"{folder}/RECORD", f"{folder}/METADATA,,\n{folder}/WHEEL,,\n{folder}/RECORD,,\n")
    return buffer.getvalue()
