"""What a right envlock.toml is read as; the example is the documentation's own."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from specs import DOCS, SMALLEST, spec_of, touch_wheel

from envlock.errors import FaultyInput
from envlock.platforms import Platform
from envlock.spec.keys import KEYS
from envlock.spec.model import AccessSpec, BaseSpec, CopySpec, DataKind, EnvSpec, ImageSpec, IndexSpec, TargetSpec
from envlock.spec.reader import read_spec


def examples() -> list[str]:
    return re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)


@pytest.fixture
def example(tmp_path: Path) -> EnvSpec:
    """The documented example, in a folder that has what it names."""
    touch_wheel(tmp_path / "wheels", "ours-1.0-py3-none-any.whl")
    (tmp_path / "src").mkdir()
    (tmp_path / "requirements.txt").write_text("peft\n-c limits.txt\n")
    (tmp_path / "limits.txt").write_text("accelerate<2\n")
    (tmp_path / "environment.yml").write_text("dependencies: [cmake]\n")
    (tmp_path / "conda-lock.yml").write_text("version: 1\n")
    return spec_of(tmp_path, examples()[0])


def test_the_documented_example_uses_every_key() -> None:
    def keys(value: dict[str, Any] | list[dict[str, Any]], schema: str) -> set[tuple[str, str]]:
        tables = value if isinstance(value, list) else [value]
        found = {(schema, key) for table in tables for key in table}
        for table in tables:
            for key, inner in table.items():
                name = f"{schema}.{key}".lstrip(".")
                found |= keys(inner, name) if name in KEYS and name != schema else set()
        return found

    assert keys(tomllib.loads(examples()[0]), "") == {(schema, key) for schema in KEYS for key in KEYS[schema]}


def test_every_key_is_documented_in_its_table_and_no_other_is() -> None:
    sections = re.split(r"^## ", DOCS.read_text(), flags=re.MULTILINE)[1:]
    documented = {}
    for section in sections:
        heading = section.splitlines()[0].strip("[]")
        if heading in KEYS:
            documented[heading] = tuple(re.findall(r"^\| `([a-z-]+)` \|", section, flags=re.MULTILINE))
    assert documented == {schema: keys for schema, keys in KEYS.items() if schema}


def test_env_and_python_of_the_example(example: EnvSpec, tmp_path: Path) -> None:
    assert example.file == tmp_path / "envlock.toml"
    assert (example.name, example.python_version, example.platforms) == ("qlora", "3.13", (Platform.AMD64,))
    assert [(requirement.text, requirement.origin) for requirement in example.python.requirements] == [
        ("torch>=2.6", "envlock.toml: python.requirements[0]"),
        ('transformers[torch]<6,>=5; python_version >= "3.11"', "envlock.toml: python.requirements[1]"),
        ("peft", "requirements.txt:1"),
        (
            f"ours @ {(tmp_path / 'wheels/ours-1.0-py3-none-any.whl').as_uri()}",
            "envlock.toml: python.requirements[3]",
        ),
        ("trl @ git+https://git.example/trl.git@v1.0", "envlock.toml: python.requirements[4]"),
    ]
    assert [(constraint.text, constraint.origin) for constraint in example.python.constraints] == [
        ("accelerate<2", "limits.txt:1"),
        ("numpy<3", "envlock.toml: python.constraints[0]"),
    ]
    assert example.python.exclude_newer == "2026-12-01T00:00:00Z"  # the end of the day before
    assert example.python.allow_sdist == {"jieba", "pathtools"}
    assert not example.python.allow_pure_sdist


def test_indexes_target_and_base_of_the_example(example: EnvSpec, tmp_path: Path) -> None:
    assert example.indexes == (
        IndexSpec(
            name="torch-cu128", url="https://wheels.example/cu128", packages=frozenset({"torch", "torchvision"})
        ),
        IndexSpec(name="our-wheels", url=str(tmp_path / "wheels")),
    )
    assert example.target == TargetSpec(driver="535", gpus=("8.0", "8.9"), cuda="auto")
    assert example.base == BaseSpec(debian="trixie", packages=("git", "tmux"), mirror="http://mirror.example/debian")


def test_image_of_the_example(example: EnvSpec, tmp_path: Path) -> None:
    workspace = PurePosixPath("/workspace")
    assert example.image == ImageSpec(
        user="trainer",
        env={"OMP_NUM_THREADS": "8", "TOKENIZERS_PARALLELISM": "false"},
        entrypoint=("python",),
        cmd=("train.py",),
        workdir=workspace,
        labels={"org.example.team": "vision"},
        copy=(CopySpec(source=tmp_path / "src", to=workspace, ignore=("*.log", "outputs/")),),
    )


def test_data_access_and_sources_of_the_example(example: EnvSpec) -> None:
    models, scratch = example.data
    assert (models.kind, models.on_stop, models.on_release) == (DataKind.DATA_DISK, "kept", "lost")
    assert models.required
    assert models.min_free == 60_000_000_000
    assert models.env == {"HF_HOME": PurePosixPath("/data/models/hf")}
    assert scratch.env == {"TMPDIR": PurePosixPath("/data/scratch")}
    assert (scratch.on_stop, scratch.required, scratch.min_free) == ("unknown", False, None)
    assert example.access == AccessSpec(ssh=True)
    assert [(source.kind, source.licence, source.confirmed) for source in example.sources] == [
        ("model", "Apache-2.0", True)
    ]


def test_the_smallest_file_has_the_documented_defaults(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, examples()[1])
    assert (spec.python_version, spec.platforms) == ("3.13", (Platform.AMD64,))
    assert (spec.base, spec.target, spec.image) == (BaseSpec(), TargetSpec(), ImageSpec())
    assert (spec.python.resolver, spec.python.constraints, spec.python.exclude_newer) == ("uv", (), None)
    assert (spec.indexes, spec.data, spec.sources, spec.access) == ((), (), (), AccessSpec())


def test_the_file_itself_can_be_named(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    other = (tmp_path / "envlock.toml").rename(tmp_path / "other.toml")
    assert read_spec(other).file == other
    assert read_spec(other).digest == spec.digest


def test_a_missing_file_is_told_with_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(FaultyInput) as fault:
        read_spec(tmp_path)
    assert fault.value.code == "spec-missing"
    assert str(tmp_path / "envlock.toml") in fault.value.message


@pytest.mark.parametrize(("suite", "python"), [("bookworm", "3.11"), ("trixie", "3.13")])
def test_python_is_the_suites_unless_given(tmp_path: Path, suite: str, python: str) -> None:
    assert spec_of(tmp_path, f'{SMALLEST}[base]\ndebian = "{suite}"').python_version == python


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-11-30", "2026-12-01T00:00:00Z"),
        ('"2026-11-30"', "2026-12-01T00:00:00Z"),
        ("2026-11-30T12:00:00Z", "2026-11-30T12:00:00Z"),
        ("2026-11-30T12:00:00+08:00", "2026-11-30T04:00:00Z"),
        ('"2026-11-30T12:00:00Z"', "2026-11-30T12:00:00Z"),
    ],
)
def test_exclude_newer_is_a_moment_in_utc(tmp_path: Path, written: str, read: str) -> None:
    assert spec_of(tmp_path, f"{SMALLEST}exclude-newer = {written}").python.exclude_newer == read


def test_allow_sdist_can_be_pure(tmp_path: Path) -> None:
    python = spec_of(tmp_path, f'{SMALLEST}allow-sdist = "pure"').python
    assert (python.allow_pure_sdist, python.allow_sdist) == (True, frozenset())


def test_names_of_packages_are_normalised(tmp_path: Path) -> None:
    text = f'{SMALLEST}allow-sdist = ["Transformers_Stream.Generator"]\n[[index]]\nname = "x"\nurl = "."\n'
    spec = spec_of(tmp_path, f'{text}packages = ["Flash_Attn"]\n')
    assert spec.python.allow_sdist == {"transformers-stream-generator"}
    assert spec.indexes[0].packages == {"flash-attn"}


@pytest.mark.parametrize(
    "prefix", ["/env", "/opt/env", "/opt/conda/envs/x", "/usr/local/env", "/root/env", "/home/me/env"]
)
def test_a_prefix_may_be_any_folder_of_its_own(tmp_path: Path, prefix: str) -> None:
    assert spec_of(tmp_path, f'{SMALLEST}[image]\nprefix = "{prefix}/"').image.prefix == PurePosixPath(prefix)


@pytest.mark.parametrize("user", ["root", "0", "0:0"])
def test_root_is_no_user_of_its_own(tmp_path: Path, user: str) -> None:
    assert spec_of(tmp_path, f'{SMALLEST}[image]\nuser = "{user}"').image.user is None


@pytest.mark.parametrize(
    ("written", "size"),
    [("5", 5), ('"20GB"', 20 * 10**9), ('"1.5 KiB"', 1536), ('"7B"', 7), ('"2TB"', 2 * 10**12)],
)
def test_sizes_have_units(tmp_path: Path, written: str, size: int) -> None:
    data = f'[[data]]\npath = "/data"\nkind = "cache"\npurpose = "x"\nmin-free = {written}\n'
    assert spec_of(tmp_path, SMALLEST + data).data[0].min_free == size


@pytest.mark.parametrize(
    ("source", "to", "at"),
    [
        ("train.py", "/workspace/", "/workspace/train.py"),
        ("train.py", "/workspace/run.py", "/workspace/run.py"),
        ("train.py", "/", "/train.py"),
        ("../", "/workspace/", "/workspace"),
        (".", "/", "/"),
    ],
)
def test_a_file_goes_into_a_place_that_ends_with_a_slash(tmp_path: Path, source: str, to: str, at: str) -> None:
    folder = tmp_path / "spec"
    folder.mkdir()
    (folder / "train.py").touch()
    spec = spec_of(folder, f'{SMALLEST}[[image.copy]]\nsource = "{source}"\nto = "{to}"\n')
    assert spec.image.copy[0].to == PurePosixPath(at)
    assert spec.image.copy[0].source == (folder / source).resolve()


def test_tracked_copies_come_from_a_git_work_tree(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "spec" / "src").mkdir(parents=True)
    copy = '[[image.copy]]\nsource = "src"\nto = "/w"\ntracked = true\n'
    assert spec_of(tmp_path / "spec", SMALLEST + copy).image.copy[0].tracked


def test_folders_of_code_may_be_merged_and_hold_data_directories(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    copies = "".join(f'[[image.copy]]\nsource = "{name}"\nto = "/workspace"\n' for name in ("one", "two"))
    data = '[[data]]\npath = "/workspace/outputs"\nkind = "scratch"\npurpose = "x"\n'
    assert len(spec_of(tmp_path, SMALLEST + copies + data).image.copy) == 2


@pytest.mark.parametrize(
    "path",
    ["/data", "/mnt", "/scratch", "/root/autodl-tmp", "/home/me/data", "/var/data", "/opt/data", "/openbayes/home/"],
)
def test_data_may_be_where_rental_platforms_put_it(tmp_path: Path, path: str) -> None:
    data = f'[[data]]\npath = "{path}"\nkind = "network"\npurpose = "x"\n'
    assert spec_of(tmp_path, SMALLEST + data).data[0].path == PurePosixPath(path)
