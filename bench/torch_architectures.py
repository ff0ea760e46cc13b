"""Which GPU architectures a torch wheel holds machine code and PTX for, read from its fat binaries.

    python bench/torch_architectures.py WHEEL...

prints, for each wheel, a `[[build]]` table as `envlock/lock/torch_builds.toml` holds them, with the counts it is made
from as a comment. nvcc puts each translation unit's device code into one *fat binary*: a header (magic 0xBA55ED50,
version, its own size, size of the rest), then an entry for each architecture: a header (kind: 1 PTX, 2 machine code;
sizes; architecture; flags) and the code, compressed or not. An architecture that torch was built for is in nearly
all of them; one that only a few kernels were built for (with Hopper's and Blackwell's own matrix instructions) is
not, and does not make torch run on such a GPU.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

LIBRARY = "torch/lib/libtorch_cuda.so"
MAGIC = struct.pack("<I", 0xBA55ED50)
FAT_HEADER = struct.Struct("<IHHQ")  # magic, version, size of this header, size of all entries
ENTRY_HEADER = struct.Struct("<HHIQ12xI8xQ")  # kind, version, size of this header, size of code, architecture, flags
PTX, CUBIN = 1, 2
SPECIFIC = 0x300000  # flags of code for one GPU or family alone: sm_90a, sm_100f
SHARE = 0.5  # of the fat binaries that an architecture must be in
CHUNK = 8 << 20


@dataclass(frozen=True, slots=True)
class Build:
    """What a torch wheel says and holds; architectures as compute capabilities."""

    torch: str
    cuda: str
    machine: str
    cubin: tuple[str, ...]
    ptx: tuple[str, ...]
    counts: str

    def as_toml(self) -> str:
        """The table, one key a line."""
        lines = [
            f"# {self.counts}",
            "[[build]]",
            f'torch = ["{self.torch}"]',
            f'cuda = "{self.cuda}"',
            f'machine = "{self.machine}"',
            f"cubin = {json.dumps(self.cubin)}",
            f"ptx = {json.dumps(self.ptx)}",
        ]
        return "\n".join(lines) + "\n"


class Stream:
    """A file that is read forwards only, with a look-out for a magic number."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._buffer = b""
        self._at = 0

    def find(self, magic: bytes) -> bool:
        """Move to the next place where `magic` stands; False at the end of the file."""
        while (found := self._buffer.find(magic, self._at)) < 0:
            self._at = max(self._at, len(self._buffer) - len(magic) + 1)
            if not self._more():
                return False
        self._at = found
        return True

    def peek(self, count: int) -> bytes:
        """The next bytes, fewer at the end of the file."""
        while len(self._buffer) - self._at < count and self._more():
            pass
        return self._buffer[self._at : self._at + count]

    def skip(self, count: int) -> None:
        """Move over that many bytes."""
        while len(self._buffer) - self._at < count:
            count -= len(self._buffer) - self._at
            self._at = len(self._buffer)
            if not self._more():
                return
        self._at += count

    def _more(self) -> bool:
        chunk = self._file.read(CHUNK)
        self._buffer = self._buffer[self._at :] + chunk
        self._at = 0
        return bool(chunk)


def entries(stream: Stream) -> Iterator[tuple[int, int, int]]:
    """Kind, architecture (86) and flags of every entry of every fat binary; (0, 0, 0) opens each fat binary."""
    while stream.find(MAGIC):
        header = stream.peek(FAT_HEADER.size)
        if len(header) < FAT_HEADER.size:
            return
        _, version, own_size, left = FAT_HEADER.unpack(header)
        if (version, own_size) != (1, FAT_HEADER.size):
            stream.skip(len(MAGIC))
            continue
        yield 0, 0, 0
        stream.skip(own_size)
        while left > 0:
            head = stream.peek(ENTRY_HEADER.size)
            kind, _, head_size, size, architecture, flags = ENTRY_HEADER.unpack(head)
            yield kind, architecture, flags
            stream.skip(head_size + size)
            left -= head_size + size


def read_build(wheel: Path) -> Build:
    """Read one wheel; ValueError where it has no CUDA in it, or where its own list of architectures differs."""
    with zipfile.ZipFile(wheel) as archive:
        if LIBRARY not in archive.namelist():
            raise ValueError(f"{wheel.name} is built without CUDA")
        version = archive.read("torch/version.py").decode()
        with archive.open(LIBRARY) as file:
            counts = Counter((kind, sm, bool(flags & SPECIFIC)) for kind, sm, flags in entries(Stream(file)))
        stated = _stated(archive)
    fat = counts.pop((0, 0, False))

    def general(kind: int) -> tuple[int, ...]:
        found = (
            sm for (of, sm, specific), count in counts.items() if of == kind and not specific and count > fat * SHARE
        )
        return tuple(sorted(found))

    cubin, ptx = general(CUBIN), general(PTX)
    if stated is not None and stated != (cubin, ptx):
        raise ValueError(f"{wheel.name} says that it was built for {stated}, and holds {(cubin, ptx)}")
    cuda = re.search(r"^cuda\b.*= '([\d.]+)'", version, re.MULTILINE)
    if cuda is None:
        raise ValueError(f"{wheel.name} does not say which CUDA it is built with")
    machine = re.search(r"_(x86_64|aarch64)\.whl$", wheel.name)
    return Build(
        torch=wheel.name.split("-")[1],
        cuda=cuda[1],
        machine=machine[1] if machine else "unknown",
        cubin=tuple(map(_capability, cubin)),
        ptx=tuple(map(_capability, ptx)),
        counts=f"{fat} fat binaries; {_words(counts)}",
    )


def _stated(archive: zipfile.ZipFile) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The list that `torch.cuda.get_arch_list()` gives, from the text in the library that answers it."""
    data = archive.read("torch/lib/libtorch_python.so")
    found = re.search(rb"\x00((?:sm_\d+a? ?)+(?:compute_\d+ ?)*)\x00", data)
    if found is None:
        return None
    words = found[1].decode().split()
    cubin = sorted(int(word.removeprefix("sm_")) for word in words if re.fullmatch(r"sm_\d+", word))
    ptx = sorted(int(word.removeprefix("compute_")) for word in words if word.startswith("compute_"))
    return tuple(cubin), tuple(ptx)


def _words(counts: Counter[tuple[int, int, bool]]) -> str:
    names = {PTX: "compute", CUBIN: "sm"}
    items = sorted(counts.items(), key=lambda item: item[0])
    return ", ".join(f"{names[kind]}_{sm}{'a' if own else ''}: {count}" for (kind, sm, own), count in items)


def _capability(sm: int) -> str:
    return f"{sm // 10}.{sm % 10}"


def main(arguments: Sequence[str]) -> int:
    """Print the tables of all wheels named."""
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    for argument in arguments:
        print(read_build(Path(argument)).as_toml(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
