"""What is wrong is told with its line, its key and what to write instead, once and all at once."""

from __future__ import annotations

import datetime as dt
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from specs import DOCS, SMALLEST, faults_of, requirements, spec_of

from envlock.errors import FaultyInput
from envlock.spec.reader import read_spec

# SMALLEST has four lines and ends in [python], so what is added begins on line 5.
DATA = '[[data]]\npath = "/data"\nkind = "cache"\npurpose = "x"\n'
INDEX = '[[index]]\nname = "x"\nurl = "https://wheels.example"\n'
COPY = '[[image.copy]]\nsource = "src"\n'

FAULTS: list[tuple[str, str, str]] = [  # added text, where (line: key), what is told
    # unknown keys and wrong tables
    ("allow_sdist = []", "5: python.allow_sdist", "unknown key; write allow-sdist"),
    ("platforms = []", "5: python.platforms", "unknown key; it belongs in [env]"),
    ("zzz = 1", "5: python.zzz", "unknown key; the keys here are requirements, constraints"),
    ('"odd key" = 1', '5: python."odd key"', "unknown key"),
    ("[images]", "5: images", "unknown key; write image"),
    ("[docker]", "5: docker", "unknown key; the keys here are env, python"),
    ('[[image]]\nuser = "x"', "5: image", "an array of tables; write it as one table, [image]"),
    ("[data]\n", "5: data", "a single table; write each one under a heading of its own, [[data]]"),
    ("[image]\ncopy = 1", "6: image.copy", "[[image.copy]]"),
    ('[[source]]\nname = "x"\nkind = "model"\nlicense = "MIT"', "8: source[0].license", "unknown key; write licence"),
    # the table python
    ('resolver = "pip"', "5: python.resolver", '"pip" is not known; write "pip-tools"'),
    ('resolver = "poetry"', "5: python.resolver", 'write "uv" or "pip-tools"'),
    ('constraints = "numpy<3"', "5: python.constraints", '"numpy<3" is not a list; write ["numpy<3"]'),
    ("constraints = [\n  'a<1',\n  7,\n]", "7: python.constraints[1]", '7 is not a string; write "7"'),
    ('constraints = ["a[x]<1"]', "5: python.constraints[0]", "without [ ]"),
    ('constraints = ["-r x.txt"]', "5: python.constraints[0]", "write -c x.txt"),
    ('allow-sdist = ["deepspeed>=0.1"]', "5: python.allow-sdist[0]", "write one name, without version"),
    ('allow-sdist = ["a.b", "A-B"]', "5: python.allow-sdist[1]", "stands in the list already"),
    ("exclude-newer = 2026-11-30T12:00:00", "5: python.exclude-newer", "write 2026-11-30T12:00:00Z for UTC"),
    ('exclude-newer = "last week"', "5: python.exclude-newer", "write 2026-11-30 or"),
    ("exclude-newer = 9999-12-31", "5: python.exclude-newer", "neither a date nor a time"),
    ("exclude-newer = 0001-01-01T00:00:00+14:00", "5: python.exclude-newer", "neither a date nor a time"),
    # the table index
    (INDEX.replace('"x"', '"default"'), "6: index[0].name", "a name that locks use themselves"),
    (INDEX.replace('"x"', '"a b"'), "6: index[0].name", "not an index name"),
    (INDEX + INDEX, "9: index[1].name", "the same as index[0].name"),
    (INDEX.replace("https://", "https://me:pw@"), "7: index[0].url", "holds credentials"),
    (INDEX.replace("https://", "ftp://"), "7: index[0].url", "is not an http or https URL"),
    (INDEX.replace("https://", "https://${HOST}"), "7: index[0].url", "not expanded; write the whole URL"),
    (INDEX.replace("https://wheels.example", "no/such"), "7: index[0].url", "neither a URL nor a folder"),
    (INDEX.replace("https://wheels.example", "file://host/x"), "7: index[0].url", "names a host"),
    ('[[index]]\nname = "x"', "5: index[0].url", 'missing; write `url = "https://..."` in [[index]]'),
    (INDEX + 'packages = ["nvidia-*"]', "8: index[0].packages[0]", "without version or wildcard"),
    (
        INDEX + 'packages = ["torch"]\n' + INDEX.replace('"x"', '"y"') + 'packages = ["Torch"]',
        "12: index[1].packages",
        "torch comes from index[0] already",
    ),
    # the table target
    ('[target]\ndriver = "\\u0665\\u0663\\u0665"', "6: target.driver", 'write ">=535"'),
    ("[target]\ndriver = 535", "6: target.driver", 'write ">=535"'),
    ('[target]\ndriver = "<=535"', "6: target.driver", 'not the lowest driver; write ">=535"'),
    ('[target]\ncuda = "cu128"', "6: target.cuda", 'write "12.8"'),
    ('[target]\ncuda = "13"', "6: target.cuda", 'write "13.0"'),
    ('[target]\ncuda = "rocm"', "6: target.cuda", '"auto", "cpu" or a version'),
    ('[target]\ncuda = "cpu"\ngpus = ["T4"]', "7: target.gpus", "delete this line"),
    ("[target]\ngpus = [8.9]", "6: target.gpus[0]", "8.9 is not a string; write it in quotes"),
    # the table base
    ('[base]\ndebian = "13"', "6: base.debian", 'write "trixie"'),
    ('[base]\ndebian = "ubuntu"', "6: base.debian", 'write "bookworm" or "trixie"'),
    ('[base]\npackages = ["git=1:2.39"]', "6: base.packages[0]", "write the name alone"),
    ('[base]\npackages = ["git", "git"]', "6: base.packages[1]", "stands in the list already"),
    ('[base]\nmirror = "http://me:pw@mirror.example"', "6: base.mirror", "holds credentials"),
    # the table image
    ('[image]\nprefix = "opt/env"', "6: image.prefix", "not a usable prefix"),
    ('[image]\nprefix = "/opt/../usr"', "6: image.prefix", "has .. in it"),
    ('[image]\nprefix = "/opt"', "6: image.prefix", "/opt is a system folder; write a folder of its own"),
    ('[image]\nprefix = "/usr/env"', "6: image.prefix", "/usr/env is inside a system folder"),
    ('[image]\nprefix = "/tmp/env"', "6: image.prefix", "cleared"),
    ('[image]\nprefix = "/opt/my env"', "6: image.prefix", "not a usable prefix"),
    (f'[image]\nprefix = "/{"x" * 120}"', "6: image.prefix", "at most 100"),
    ('[image]\nuser = "\\u0661\\u0660"', "6: image.user", "is not a user"),
    ("[image]\nuser = 1000", "6: image.user", 'write "1000"'),
    ('[image]\nuser = "Me"', "6: image.user", "is not a user"),
    ('[image]\nentrypoint = "python train.py"', "6: image.entrypoint", 'write it as a list, ["python", "train.py"]'),
    ('[image]\nworkdir = "~/x"', "6: image.workdir", "not expanded"),
    ('[image]\ncmd = "it\'s"', "6: image.cmd", 'write it as a list, ["it\'s"]'),
    ('[image]\nworkdir = "/a\\tb"', "6: image.workdir", "no usable path"),
    ('[image]\nworkdir = "x"', "6: image.workdir", 'such as "/x"'),
    ('[image]\narchive-compression = "zstd"', "6: image.archive-compression", 'write "gzip" or "none"'),
    ('[image]\nbytecode = "yes"', "6: image.bytecode", "write true or false"),
    ("[image.env]\nN = 8", "6: image.env.N", 'write "8"'),
    ('[image.env]\n"A-B" = "x"', "6: image.env.A-B", "not the name of an environment variable"),
    ('[image.env]\nX = "a\\nb"', "6: image.env.X", "several lines"),
    ('[image.env]\nX = "a\\u0000b"', "6: image.env.X", "control characters"),
    ('[image]\nenv = ["A=1"]', "6: image.env", "is not a table"),
    ('[image]\nlabels = { "a b" = "x" }', '6: image.labels."a b"', "not a label's name"),
    ('[image]\nlabels = { "org.envlock.lock" = "x" }', '6: image.labels."org.envlock.lock"', "kept for envlock"),
    # the table image.copy
    (COPY, "5: image.copy[0].to", 'missing; write `to = "/workspace"` in [[image.copy]]'),
    (COPY.replace("src", "gone") + 'to = "/w"', "6: image.copy[0].source", "No such file"),
    (COPY.replace("src", "/") + 'to = "/w"', "6: image.copy[0].source", "a whole home or system"),
    (COPY.replace("src", "~/code") + 'to = "/w"', "6: image.copy[0].source", "not expanded"),
    (COPY.replace("src", "https://x.example") + 'to = "/w"', "6: image.copy[0].source", "is a URL"),
    (COPY + 'to = "/opt/env/x"', "7: image.copy[0].to", "in the prefix /opt/env"),
    (COPY + 'to = "/etc/envlock"', "7: image.copy[0].to", "nothing of yours can stand in /etc/envlock"),
    (COPY + 'to = "/w"\nignore = ["/"]', "8: image.copy[0].ignore[0]", "not an ignore pattern"),
    (COPY + 'to = "/w"\ntracked = true', "8: image.copy[0].tracked", "in no git work tree"),
    (COPY + 'to = "/data/x"\n' + DATA, "7: image.copy[0].to", "in the data directory /data"),
    (COPY.replace("src", "a.py") + 'to = "/usr"', "7: image.copy[0].to", 'write "/usr/"'),
    (
        COPY.replace("src", "a.py") + 'to = "/w"\n' + COPY + 'to = "/w/x"',
        "10: image.copy[1].to",
        "/w/x and image.copy[0].to, /w, are in each other's way",
    ),
    # the table data
    ('[[data]]\npath = "/data"\nkind = "cache"', "5: data[0].purpose", "missing"),
    (DATA.replace("cache", "nfs"), "7: data[0].kind", 'write "network"'),
    (DATA.replace('"x"', '" "'), "8: data[0].purpose", "empty"),
    (DATA.replace("/data", "/usr/share"), "6: data[0].path", "inside a system folder"),
    (DATA.replace("/data", "/"), "6: data[0].path", "/ is a system folder"),
    (DATA.replace("/data", "/var/run/x"), "6: data[0].path", "inside a system folder"),
    (DATA.replace("/data", "/opt/env"), "6: data[0].path", "/opt/env is the prefix"),
    (DATA.replace("/data", "/opt/env/data"), "6: data[0].path", "inside the prefix"),
    (DATA + '[image]\nprefix = "/data/env"', "6: data[0].path", "the prefix /data/env is inside /data"),
    (DATA + DATA, "10: data[1].path", "/data is data[0].path already"),
    (DATA + DATA.replace("/data", "/data/b"), "10: data[1].path", "/data/b is inside /data"),
    (DATA + DATA.replace("/data", "//data/./b/"), "10: data[1].path", "/data/b is inside /data"),
    (DATA + "required = 1", "9: data[0].required", "write true or false"),
    (DATA + 'min-free = "20g"', "9: data[0].min-free", 'write "20GB"'),
    (DATA + "min-free = -1", "9: data[0].min-free", "above zero"),
    (DATA + "min-free = true", "9: data[0].min-free", "not a string"),
    (DATA + 'min-free = "0.1B"', "9: data[0].min-free", "above zero"),
    (DATA + 'env = { X = "sub" }', "9: data[0].env.X", 'write "/data/sub"'),
    (DATA + 'env = { X = "/database" }', "9: data[0].env.X", "/database is not below /data"),
    (DATA + 'env = "X"', "9: data[0].env", "neither a table nor a list"),
    (DATA + 'env = ["X", "X"]', "9: data[0].env[1]", "stands in the list already"),
    (DATA + 'env = ["X"]\n[image.env]\nX = "1"', "9: data[0].env.X", "X is set in image.env too"),
    (DATA + 'env = ["X"]\n' + DATA.replace("/data", "/b") + 'env = ["X"]', "14: data[1].env.X", "data[0].env too"),
    # the table access and source
    ('[access]\nssh = "yes"', "6: access.ssh", "write true or false"),
    ('[[source]]\nname = "x"\nkind = "data"', "7: source[0].kind", 'write "dataset"'),
    ('[[source]]\nname = "x"\nkind = "model"\nconfirmed = true', "8: source[0].confirmed", "no licence is named"),
    ('[[source]]\nname = "x"\nkind = "model"\n' * 2, "9: source[1].name", "the same as source[0].name"),
]


@pytest.mark.parametrize(("added", "where", "told"), FAULTS, ids=[where for _, where, _ in FAULTS])
def test_a_fault_is_told_once_with_line_key_and_remedy(tmp_path: Path, added: str, where: str, told: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "a.py").touch()
    (fault,) = faults_of(tmp_path, SMALLEST + added)
    assert fault.startswith(f"envlock.toml:{where}: ")
    assert told in fault


HEADS: list[tuple[str, str, str]] = [
    ("", "1: env.name", 'missing; write `name = "qlora"` in [env]'),
    ('[env]\nname = "x"', "1: python.requirements", "missing"),
    ('[env]\nname = "x"\n[pyton]\nrequirements = []', "3: pyton", "write python"),
    ('[env]\nname = "x"\n\n[python]\nrequirement = []', "5: python.requirement", "write requirements"),
    ('[env]\nname = "x"\n[[python]]\nrequirements = []', "3: python", "write it as one table, [python]"),
    ('env = "x"\n[python]\nrequirements = []', "1: env", "not a table; write it as one table, [env]"),
    ('[env]\nname = "Qlora 2"\n[python]\nrequirements = []', "2: env.name", "small letters"),
    (f'[env]\nname = "{"x" * 101}"\n[python]\nrequirements = []', "2: env.name", "at most 100"),
    ('[env]\nname = "../x"\n[python]\nrequirements = []', "2: env.name", "small letters"),
    ('[env]\nname = "x"\npython = 3.10\n[python]\nrequirements = []', "3: env.python", "in quotes"),
    ('[env]\nname = "x"\npython = "3.13.5"\n[python]\nrequirements = []', "3: env.python", 'write "3.13"'),
    ('[env]\nname = "x"\npython = "3.11"\n[python]\nrequirements = []', "3: env.python", 'debian = "bookworm"'),
    ('[env]\nname = "x"\npython = "3.12"\n[python]\nrequirements = []', "3: env.python", '"3.11" (bookworm)'),
    ('[env]\nname = "x"\nplatforms = []\n[python]\nrequirements = []', "3: env.platforms", "empty"),
    (
        '[env]\nname = "x"\nplatforms = ["amd64"]\n[python]\nrequirements = []',
        "3: env.platforms[0]",
        'write "linux/amd64"',
    ),
]


@pytest.mark.parametrize(("text", "where", "told"), HEADS, ids=[f"{where} {told[:20]}" for _, where, told in HEADS])
def test_faults_of_the_head(tmp_path: Path, text: str, where: str, told: str) -> None:
    faults = faults_of(tmp_path, text)
    assert faults[0].startswith(f"envlock.toml:{where}: ")
    assert told in faults[0]
    assert len(faults) == (1 if text else 2)  # an empty file lacks two things


def test_all_faults_are_told_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("torch\n\n--pre\n")
    faults = faults_of(
        tmp_path,
        '[env]\nname = "X"\n[python]\nrequirements = ["torch=2", "-r more.txt"]\nresolver = "x"\n[zzz]\n'
        + DATA
        + DATA,
    )
    assert [fault.split(": ")[:2] for fault in faults[:-1]] == [
        ["envlock.toml:2", "env.name"],
        ["envlock.toml:4", "python.requirements[0]"],
        ["envlock.toml:5", "python.resolver"],
        ["envlock.toml:6", "zzz"],
        ["envlock.toml:12", "data[1].path"],
    ]
    assert faults[-1].startswith("more.txt:3: pip's option --pre has no place here")


def test_no_clash_is_told_of_a_key_that_is_wrong_itself(tmp_path: Path) -> None:
    faults = faults_of(
        tmp_path,
        SMALLEST
        + '[image]\nprefx = "/data/env"\n'
        + DATA.replace('"/data"', '"data"')
        + DATA.replace('"/data"', '"/opt/env"')
        + 'env = { X = "/elsewhere" }\n',
    )
    assert [fault.split(": ")[1] for fault in faults] == ["image.prefx", "data[0].path", "data[1].env.X"]


def test_only_files_and_folders_are_copied(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (fault,) = faults_of(tmp_path, SMALLEST + COPY.replace("src", "pipe") + 'to = "/w"')
    assert "is neither file nor folder" in fault


def test_a_home_is_not_copied(tmp_path: Path) -> None:
    home = tmp_path / "home"
    text = SMALLEST + '[[image.copy]]\nsource = ".."\nto = "/w"\n'
    spec = spec_of(home / "project", text)  # not known to be anyone's home
    assert spec.image.copy[0].source == home
    for whose in (home, home / "me"):
        with pytest.raises(FaultyInput, match="a whole home"):
            read_spec(home / "project", home=whose)


@pytest.mark.parametrize(
    "variable",
    [
        'HF_TOKEN = "x"',
        'WANDB_API_KEY = "x"',
        'AWS_SECRET_ACCESS_KEY = "x"',
        'db_password = "x"',
        'ANY = "hf_abcdefghijklmnopqrstuvwxyz"',
        'ANY = "ghp_abcdefghijklmnopqrstuvwxyz"',
        'HTTPS_PROXY = "http://me:sesame@proxy.example:3128"',
    ],
)
def test_secrets_are_refused_and_not_repeated(tmp_path: Path, variable: str) -> None:
    (fault,) = faults_of(tmp_path, f"{SMALLEST}[image.env]\n{variable}")
    assert "secret" in fault or "credentials" in fault
    assert "sesame" not in fault
    assert "abcdef" not in fault


@pytest.mark.parametrize(
    "variable",
    [
        'TOKENIZERS_PARALLELISM = "false"',
        'HF_TOKEN_PATH = "/data/token"',
        'MAX_TOKENS = "4096"',
        'HF_TOKEN = ""',
        'CUBLAS_WORKSPACE_CONFIG = ":4096:8"',
        'HTTPS_PROXY = "http://proxy.example:3128"',
        'MONKEY = "x"',
    ],
)
def test_other_variables_are_no_secrets(tmp_path: Path, variable: str) -> None:
    assert len(spec_of(tmp_path, f"{SMALLEST}[image.env]\n{variable}").image.env) == 1


def test_credentials_that_a_fault_quotes_are_masked(tmp_path: Path) -> None:
    entries = [
        "torch @@ https://me:sesame@host.example",
        "torch https://sesame@host.example",
        "-r https://me:sesame@x.example/r.txt",
        "-r https://me:open@sesame@x.example/r.txt",
    ]
    faults = faults_of(tmp_path, requirements(*entries))
    assert len(faults) == len(entries)
    assert not any("sesame" in fault for fault in faults)


WRONG_VALUES: list[object] = [
    True, -1, 10**400, 1.5, float("nan"), dt.date(2026, 1, 1), dt.time(1), dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    "", " ", "\x00", "/", "..", "~", "[", "://", "x://[", "@", "-", "-r", "${X}", ";", "#", "=", "a" * 5000,
    [], [[]], [{}], {}, {"": ""}, {"a": {"b": 1}},
]  # fmt: skip


def test_no_value_anywhere_breaks_the_reader(tmp_path: Path) -> None:
    """Each key of the documented example in turn is given each of these values; lists get it as their element."""
    example = re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.DOTALL)[0]
    values = tomllib.loads(example)
    places = [(table, key) for table in tables_of(values) for key in table]
    told = 0
    for table, key in places:
        right = table[key]
        for wrong in WRONG_VALUES:
            table[key] = [wrong] if isinstance(right, list) else wrong
            told += tells_or_reads(tmp_path, tomli_w.dumps(values))
        table[key] = right
    assert told > len(places) * len(WRONG_VALUES) / 2


def tells_or_reads(folder: Path, text: str) -> bool:
    """Whether the text is faulty; its faults all have a place."""
    try:
        spec_of(folder, text)
    except FaultyInput as fault:
        return all(re.match(r"[^:]+:\d+: ", line) for line in fault.message.splitlines())
    return False


def tables_of(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from tables_of(inner)
