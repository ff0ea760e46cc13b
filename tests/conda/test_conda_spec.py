"""[conda] of envlock.toml, and environment.yml: what they mean and every fault at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from envlock.errors import FaultyInput
from envlock.spec.model import EnvSpec
from envlock.spec.reader import read_spec

HEAD = '[env]\nname = "mixed"\n'


def read(folder: Path, text: str) -> EnvSpec:
    (folder / "envlock.toml").write_text(text)
    return read_spec(folder)


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(FaultyInput) as caught:
        read(folder, text)
    return caught.value.message.splitlines()


def test_what_is_written_is_what_is_meant(tmp_path: Path) -> None:
    spec = read(
        tmp_path,
        HEAD
        + """
[conda]
channels = ["conda-forge", "https://conda.example/own/"]
dependencies = ["python 3.12.*", "ffmpeg >=7"]
mirrors = { conda-forge = ["https://mirror.example/cf"] }
wins = { NumPy = "conda" }
allow-scripts = ["openjdk"]
""",
    )
    conda = spec.conda
    assert conda is not None
    assert spec.python_version == "3.12"
    assert conda.channels == ("conda-forge", "https://conda.example/own")
    assert [item.text for item in conda.dependencies] == ["python 3.12.*", "ffmpeg >=7"]
    assert conda.mirrors == {"conda-forge": ("https://mirror.example/cf",)}
    assert conda.wins == {"numpy": "conda"}
    assert conda.allow_scripts == {"openjdk"}
    assert spec.python.requirements == ()


def test_an_environment_yml_joins_both_sides(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(
        "name: x\nchannels:\n  - conda-forge\n  - nodefaults\n"
        "dependencies:\n  - python=3.12\n  - pip\n  - pip:\n    - six>=1.16\n"
    )
    spec = read(tmp_path, HEAD + '[python]\nrequirements = ["click"]\n[conda]\nfile = "environment.yml"\n')
    assert spec.conda is not None
    assert spec.conda.channels == ("conda-forge",)
    assert [(item.text, item.origin) for item in spec.conda.dependencies] == [("python=3.12", "environment.yml:6")]
    assert [(item.text, item.origin) for item in spec.python.requirements][1] == ("six>=1.16", "environment.yml:9")
    assert spec.python_version == "3.12"


def test_all_faults_are_told_at_once_with_key_and_line(tmp_path: Path) -> None:
    told = faults(
        tmp_path,
        HEAD
        + """[conda]
channels = ["not a name", "https://user:pw@conda.example/x", "https://conda.example/t/abc123/x"]
dependencies = ["a[b"]
solver = "rattler"
wins = { six = "both" }
lokc = "x"
""",
    )
    text = "\n".join(told)
    for line in (
        "envlock.toml:4: conda.channels[0]: ",
        "envlock.toml:4: conda.channels[1]: ",
        "envlock.toml:4: conda.channels[2]: ",
        "envlock.toml:5: conda.dependencies[0]: ",
        'envlock.toml:6: conda.solver: "rattler" is not known; write "py-rattler"',
        "envlock.toml:7: conda.wins.six: ",
        "envlock.toml:8: conda.lokc: unknown key; write lock",
    ):
        assert line in text
    assert "abc123" not in text
    assert "pw@" not in text


def test_what_cannot_be_carried_over_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(
        "channels: [conda-forge]\nvariables:\n  A: b\ndependencies:\n  - ffmpeg\n  - [x]\n  - npm: [y]\n"
        "  - pip:\n    - -e .\n"
    )
    told = "\n".join(faults(tmp_path, HEAD + '[conda]\nfile = "environment.yml"\n'))
    assert "environment.yml:2: variables: cannot be carried over; write them in [image] env" in told
    assert "environment.yml:6: not a text" in told
    assert "environment.yml:7: npm: cannot be carried over" in told
    assert "environment.yml:9: " in told


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ("[conda]\n", "envlock.toml:3: conda: nothing is asked for"),
        ('[conda]\ndependencies = ["x"]\n', "conda.channels: missing"),
        ('[conda]\nfile = "gone.yml"\n', "conda.file: there is no file"),
        (
            '[conda]\nchannels = ["a"]\ndependencies = ["python 3.12.*"]\n[base]\ndebian = "sid"\n',
            "base.debian",
        ),
    ],
)
def test_a_conda_table_that_says_too_little(table: str, fault: str, tmp_path: Path) -> None:
    assert fault in "\n".join(faults(tmp_path, HEAD + table))


def test_python_of_env_and_of_conda_must_agree(tmp_path: Path) -> None:
    text = '[env]\nname = "x"\npython = "3.11"\n[conda]\nchannels = ["a"]\ndependencies = ["python 3.12.*"]\n'
    assert "envlock.toml:3: env.python: [conda] asks for python 3.12" in "\n".join(faults(tmp_path, text))


def test_mirrors_do_not_change_the_digest_and_dependencies_do(tmp_path: Path) -> None:
    table = '[conda]\nchannels = ["a"]\ndependencies = ["x"]\n'
    plain = read(tmp_path, HEAD + table).digest
    assert read(tmp_path, HEAD + table + 'mirrors = { a = ["https://m.example/a"] }\n').digest == plain
    assert read(tmp_path, HEAD + table.replace('"x"', '"y"')).digest != plain
