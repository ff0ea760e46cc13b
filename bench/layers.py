"""Measure wheels -> layers on a folder of real wheels: MB/s, where the seconds go, and the peak of memory.

    python bench/layers.py FOLDER --python 3.13 [--interpreter PROGRAM] [--processes 2] [--steps]

Every wheel becomes a layer of its own, written to nowhere; the largest come first, in so many processes. CPU seconds
of the same work done step by step (inflate, hash, ...) are measured on the same bytes, one process, and stand beside
what the whole took, so that what is left is Python and waiting. It needs nothing but the wheels.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import deflate
from isal import igzip_lib, isal_zlib

from envlock.image.layers.bytecode import Compiler
from envlock.image.layers.wheel import Scheme, WheelInstall, prefix_entries, wheel_entries
from envlock.image.layers.wheel_zip import DeflatedFile, WheelZip
from envlock.image.layers.writer import ENCODER, write_layer


@dataclass(frozen=True)
class Converted:
    """One wheel's conversion: bytes in and out, wall and CPU seconds (of children too), peak memory in MB."""

    name: str
    wheel: int
    layer: int
    unpacked: int
    wall: float
    cpu: float
    children: float
    peak: float


@dataclass
class Steps:
    """CPU seconds by step."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measured(self, step: str) -> Iterator[None]:
        """Add what the block takes to a step."""
        start = time.process_time()
        yield
        self.seconds[step] = self.seconds.get(step, 0.0) + time.process_time() - start


class Nowhere:
    """Takes what is written to it."""

    def write(self, data: bytes) -> int:
        """Throw it away."""
        return len(data)


def install_of(path: Path) -> WheelInstall:
    """The wheel, as it would be installed."""
    name, version = path.name.split("-")[:2]
    return WheelInstall(path=path, file=path.name, name=name, version=version)


def convert(path: Path, python: str, interpreter: str | None) -> Converted:
    """Make a layer of one wheel."""
    scheme = Scheme("opt/env", python)
    wall, cpu = time.perf_counter(), time.process_time()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    compiler = None if interpreter is None else Compiler((interpreter,), dict(os.environ))
    entries = chain(prefix_entries(scheme), wheel_entries(install_of(path), scheme, compiler=compiler))
    blob = write_layer(entries, Nowhere())  # type: ignore[arg-type]  # all that is asked of it is write
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Converted(
        name=path.name,
        wheel=path.stat().st_size,
        layer=blob.size,
        unpacked=blob.unpacked,
        wall=time.perf_counter() - wall,
        cpu=time.process_time() - cpu,
        children=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def take_steps(paths: list[Path]) -> dict[str, float]:
    """CPU seconds of each step, done by itself on the same bytes: what no arrangement of the work can save."""
    steps = Steps()
    for path in paths:
        with steps.measured("read the zip's directory"):
            archive = WheelZip(path, path.name)
        with archive:
            for entry in archive.files.values():
                body = archive.body(entry, None)
                if isinstance(body, DeflatedFile):
                    take_body(path, body, steps)
    return steps.seconds


def take_body(path: Path, body: DeflatedFile, steps: Steps) -> None:
    """Each step on one entry, in the writer's own pieces."""
    inflater = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_DEFLATE)
    tar, record, layer = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    with path.open("rb") as file:
        file.seek(body.entry.data)
        left = body.entry.compressed
        while left:
            with steps.measured("read"):
                raw = file.read(min(1 << 16, left))
            left -= len(raw)
            with steps.measured("inflate"):
                data = inflater.decompress(raw)
            with steps.measured("CRC-32"):
                isal_zlib.crc32(data)
            with steps.measured("sha256 of the tar"):
                tar.update(data)
            with steps.measured("sha256 for RECORD"):
                record.update(data)
            with steps.measured("sha256 of the layer"):
                layer.update(raw)


def run(paths: list[Path], processes: int, work: Callable[..., Converted], *arguments: object) -> list[Converted]:
    """Convert all wheels, the largest first."""
    largest_first = sorted(paths, key=lambda path: -path.stat().st_size)
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(work, largest_first, *([argument] * len(paths) for argument in arguments)))


def report(title: str, done: list[Converted], wall: float) -> None:
    """Print one run."""
    unpacked, wheels, layers = (
        sum(getattr(one, key) for one in done) / 1e6 for key in ("unpacked", "wheel", "layer")
    )
    cpu, children = (sum(getattr(one, key) for one in done) for key in ("cpu", "children"))
    print(f"\n{title}")
    print(f"  {len(done)} wheels, {wheels:.0f} MB -> layers of {layers:.0f} MB, {unpacked:.0f} MB unpacked")
    print(f"  {wall:.2f} s on the clock: {wheels / wall:.0f} MB/s of wheels, {unpacked / wall:.0f} MB/s unpacked")
    peak = max(one.peak for one in done)
    print(f"  {cpu:.2f} s of CPU in the writers, {children:.2f} s in compilers; peak {peak:.0f} MB")
    for one in done[:12]:
        size, name = one.unpacked / 1e6, one.name[:60]
        print(f"    {one.wall:6.2f} s  {one.cpu:6.2f} s CPU  {size / one.cpu:5.0f} MB/s  {size:7.0f} MB  {name}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.13", help="the X.Y that paths are made for")
    parser.add_argument(
        "--interpreter", help="a program that is Python X.Y: compile bytecode with it, in a second run"
    )
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--steps", action="store_true", help="measure each step by itself too")
    options = parser.parse_args()
    paths = sorted(options.folder.glob("*.whl"))
    print(f"{platform.machine()}, {options.processes} processes, Python {platform.python_version()}, {ENCODER}")
    print(f"load before: {os.getloadavg()[0]:.1f}; deflate {deflate.__version__}")
    for title, interpreter in (("without bytecode", None), ("with bytecode", options.interpreter)):
        if interpreter is None and title == "with bytecode":
            continue
        start = time.perf_counter()
        done = run(paths, options.processes, convert, options.python, interpreter)
        report(title, done, time.perf_counter() - start)
    if options.steps:
        print("\nCPU seconds of each step by itself")
        for step, seconds in take_steps(paths).items():
            print(f"  {seconds:6.2f}  {step}")


if __name__ == "__main__":
    main()
