"""A tar of a few named files, the same for the same files."""

from __future__ import annotations

import io
import tarfile
from types import TracebackType
from typing import BinaryIO, Self

from envlock.image.plan import EPOCH

__all__ = ["TarFiles"]


class TarFiles:
    """A tar that is written member by member. A context manager."""

    def __init__(self, out: BinaryIO) -> None:
        self._tar = tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._tar.close()

    def add(self, name: str, data: bytes) -> None:
        """Write one file."""
        self.stream(name, io.BytesIO(data), len(data))

    def stream(self, name: str, source: BinaryIO, size: int) -> None:
        """Write one file of `size` bytes; raise OSError where `source` has fewer."""
        info = tarfile.TarInfo(name)
        info.size = size
        info.mtime = EPOCH
        self._tar.addfile(info, source)
