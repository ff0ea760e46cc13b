"""GPUs by the names people and nvidia-smi give them."""

from __future__ import annotations

from pathlib import Path

import pytest
from specs import SMALLEST, faults_of, spec_of

from envlock.spec.gpus import gpu_names


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("RTX 4090", "8.9"),
        ("rtx4090", "8.9"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "8.9"),
        ("RTX 5090 D", "12.0"),
        ("A100", "8.0"),
        ("A100-SXM4-80GB", "8.0"),
        ("NVIDIA A100 80GB PCIe", "8.0"),
        ("NVIDIA H100 80GB HBM3", "9.0"),
        ("H100 NVL", "9.0"),
        ("H200", "9.0"),
        ("NVIDIA GH200 480GB", "9.0"),
        ("B200", "10.0"),
        ("Tesla V100-SXM2-32GB", "7.0"),
        ("Tesla T4", "7.5"),
        ("L40S", "8.9"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0"),
        ("NVIDIA RTX A6000", "8.6"),
        ("8.9", "8.9"),
        ("12.0", "12.0"),
    ],
)
def test_a_name_is_known(tmp_path: Path, name: str, capability: str) -> None:
    assert spec_of(tmp_path, f'{SMALLEST}[target]\ngpus = ["{name}"]').target.gpus == (capability,)


def test_capabilities_are_sorted_by_number_and_stand_once(tmp_path: Path) -> None:
    gpus = '["RTX 5090", "9.0", "A100", "T4", "RTX 4090", "L4"]'
    assert spec_of(tmp_path, f"{SMALLEST}[target]\ngpus = {gpus}").target.gpus == ("7.5", "8.0", "8.9", "9.0", "12.0")


def test_every_known_name_is_understood_as_itself(tmp_path: Path) -> None:
    for name, capability in gpu_names().items():
        assert spec_of(tmp_path, f'{SMALLEST}[target]\ngpus = ["{name}"]').target.gpus == (capability,)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("RTX 6000", 'write "RTX 6000 Ada" or "Quadro RTX 6000", or'),
        ("4090", 'write "RTX 4090" or "RTX 4090 D", or'),
        ("RTX 4095", 'write "RTX 4090"'),
        ("sm_89", 'write "8.9"'),
        ("120", 'write "12.0"'),
        ("MI300X", "compute_cap"),
        ("NVIDIA", "compute_cap"),
    ],
)
def test_an_unknown_name_is_told_with_what_to_write(tmp_path: Path, name: str, instead: str) -> None:
    (fault,) = faults_of(tmp_path, f'{SMALLEST}[target]\ngpus = ["{name}"]')
    assert fault.startswith("envlock.toml:6: target.gpus[0]: ")
    assert instead in fault
