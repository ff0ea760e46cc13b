from __future__ import annotations

import importlib.util
import struct
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

PTX, CUBIN = 1, 2
SPECIFIC = 0x100000


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "torch_architectures.py"
    spec = importlib.util.spec_from_file_location("torch_architectures", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up annotations
    spec.loader.exec_module(module)
    return module


def fat_binary(*codes: tuple[int, int, int]) -> bytes:
    """A fat binary with an entry for each (kind, architecture, flags)."""
    body = b""
    for kind, architecture, flags in codes:
        code = b"code" * architecture
        head = struct.pack("<HHIQ12xI8xQ", kind, 0x101, 64, len(code), architecture, flags)
        body += head.ljust(64, b"\0") + code
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def torch_wheel(folder: Path, library: bytes | None, *, stated: str = "", cuda: str = "'13.2'") -> Path:
    path = folder / "torch-9.0.0-cp313-cp313-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("torch/version.py", f"from typing import Optional\ncuda: Optional[str] = {cuda}\n")
        archive.writestr("torch/lib/libtorch_python.so", b"\x7fELF\0" + stated.encode() + b"\0")
        if library is not None:
            archive.writestr("torch/lib/libtorch_cuda.so", library)
    return path


def library(*binaries: bytes) -> bytes:
    return b"\x7fELF" + b"".join(b"x" * 4099 + binary for binary in binaries) + b"P\xed"


COMMON: Sequence[tuple[int, int, int]] = [(CUBIN, 75, 0), (CUBIN, 90, 0), (PTX, 120, 0)]


def test_the_architectures_of_most_fat_binaries_are_told(tool: ModuleType, tmp_path: Path) -> None:
    special = fat_binary((CUBIN, 90, SPECIFIC), (CUBIN, 89, 0))
    made = torch_wheel(tmp_path, library(*[fat_binary(*COMMON)] * 5, special))
    (row,) = tomllib.loads(tool.read_build(made).as_toml())["build"]
    assert row == {
        "torch": ["9.0.0"],
        "cuda": "13.2",
        "machine": "x86_64",
        "cubin": ["7.5", "9.0"],
        "ptx": ["12.0"],
    }


def test_counts_stand_beside_them(tool: ModuleType, tmp_path: Path) -> None:
    made = torch_wheel(tmp_path, library(fat_binary(*COMMON), fat_binary(*COMMON, (CUBIN, 90, SPECIFIC))))
    first = tool.read_build(made).as_toml().splitlines()[0]
    assert first == "# 2 fat binaries; compute_120: 2, sm_75: 2, sm_90: 2, sm_90a: 1"


def test_a_magic_number_that_heads_nothing_is_stepped_over(tool: ModuleType, tmp_path: Path) -> None:
    stray = struct.pack("<IHHQ", 0xBA55ED50, 7, 16, 1 << 40)
    made = torch_wheel(tmp_path, library(stray, fat_binary(*COMMON)))
    assert tool.read_build(made).cubin == ("7.5", "9.0")


def test_a_fat_binary_across_chunks_is_read_whole(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "CHUNK", 7)
    made = torch_wheel(tmp_path, library(*[fat_binary(*COMMON)] * 3))
    assert tool.read_build(made).ptx == ("12.0",)


def test_the_wheels_own_list_must_agree(tool: ModuleType, tmp_path: Path) -> None:
    agreeing = torch_wheel(tmp_path, library(fat_binary(*COMMON)), stated="sm_75 sm_90 compute_120")
    assert tool.read_build(agreeing).cubin == ("7.5", "9.0")
    other = torch_wheel(tmp_path, library(fat_binary(*COMMON)), stated="sm_75 sm_90 sm_100")
    with pytest.raises(ValueError, match="says that it was built for"):
        tool.read_build(other)


def test_a_wheel_without_cuda_is_told(tool: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="built without CUDA"):
        tool.read_build(torch_wheel(tmp_path, None))
    with pytest.raises(ValueError, match="which CUDA"):
        tool.read_build(torch_wheel(tmp_path, library(fat_binary(*COMMON)), cuda="None"))


def test_main_prints_each_table(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = torch_wheel(tmp_path, library(fat_binary(*COMMON)))
    assert tool.main([str(made), str(made)]) == 0
    assert len(tomllib.loads(capsys.readouterr().out)["build"]) == 2
    assert tool.main([]) == 2
