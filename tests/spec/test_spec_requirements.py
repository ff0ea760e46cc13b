"""Requirements and requirements files, as people and tools write them."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from specs import SMALLEST, faults_of, requirements, spec_of, touch_wheel

from envlock.spec.requirements_files import logical_lines

WHEEL = "ours-1.0-py3-none-any.whl"
URL = f"https://host.example/{WHEEL}"


def texts(folder: Path, *entries: str) -> list[str]:
    return [requirement.text for requirement in spec_of(folder, requirements(*entries)).python.requirements]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("torch", "torch"),
        ("torch >=2.6, <3  # a comment", "torch<3,>=2.6"),
        ("Transformers[torch,audio]==5.*", "Transformers[audio,torch]==5.*"),
        ("torch==2.6.0+cu126", "torch==2.6.0+cu126"),
        ("triton ; platform_machine == 'x86_64'", 'triton; platform_machine == "x86_64"'),
        ("trl @ git+https://git.example/trl.git@abc#subdirectory=py", "trl @ git+https://git.example/trl.git@abc#subdirectory=py"),
        ("trl@git+ssh://git@git.example/trl.git", "trl @ git+ssh://git@git.example/trl.git"),
        (f"ours @ {URL} ; python_version > '3'", f'ours @ {URL} ; python_version > "3"'),
        (URL, f"ours @ {URL}"),
        ("https://host.example/ours-1.0%2Bcu1-py3-none-any.whl#sha256=00", "ours @ https://host.example/ours-1.0%2Bcu1-py3-none-any.whl#sha256=00"),
        ("numpy==2.0 --hash=sha256:00 --hash sha256:11", "numpy==2.0"),
    ],
)  # fmt: skip
def test_a_requirement_is_read(tmp_path: Path, written: str, read: str) -> None:
    assert texts(tmp_path, written) == [read]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (f"wheels/{WHEEL}", "ours @ {url}"),
        (f"./wheels/{WHEEL}[fast] ; python_version > '3'", 'ours[fast] @ {url} ; python_version > "3"'),
        (f"ours @ ./wheels/{WHEEL}", "ours @ {url}"),
        ("Ours[fast] @ {url}", "Ours[fast] @ {url}"),
        ("{url}", "ours @ {url}"),
    ],
)
def test_a_local_wheel_is_a_file_url(tmp_path: Path, written: str, read: str) -> None:
    url = touch_wheel(tmp_path / "wheels", WHEEL).as_uri()
    assert texts(tmp_path, written.format(url=url)) == [read.format(url=url)]


def test_a_local_wheel_may_stand_in_a_folder_with_blanks(tmp_path: Path) -> None:
    folder = tmp_path / "my wheels"
    touch_wheel(folder, "ours-1.0+cu1-py3-none-any.whl")
    (requirement,) = texts(folder, "./ours-1.0+cu1-py3-none-any.whl")
    assert requirement == f"ours @ {(folder / 'ours-1.0+cu1-py3-none-any.whl').as_uri()}"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("torch=2.6", 'one = is conda\'s; write "torch==2.6"'),
        ("numpy=1.26.4=py311h64a7726_0", 'conda\'s way to write one; write "numpy==1.26.4"'),
        ("torch 2.6", 'write "torch==2.6"'),
        ("torch>2 <3", "is not a requirement ("),
        ("torch ; python > 3", "is not a requirement ("),
        ("!", "is not a requirement ("),
        ("python>=3.10", "write python = ... in [env]"),
        ("pytorch", 'write "torch"'),
        ("git+https://git.example/trl.git@v1", 'write "NAME @ git+https://git.example/trl.git@v1"'),
        ("git+https://git.example/t.git#egg=trl&subdirectory=x", 'write "trl @ git+https://git.example/t.git#subdirectory=x"'),
        ("https://git.example/trl.git", 'write "NAME @ git+https://git.example/trl.git"'),
        ("trl @ https://git.example/trl.git", "write trl @ git+https://git.example/trl.git"),
        ("trl @ git@git.example:me/trl.git", "short form; write trl @ git+ssh://git@git.example/me/trl.git"),
        ("git@git.example:me/trl.git", "write NAME @ git+ssh://git@git.example/me/trl.git"),
        ("trl @ hg+https://git.example/trl", "hg+https is not fetched from"),
        ("trl @ git://git.example/trl.git", "write trl @ git+https://..."),
        ("trl @ git+https://token@git.example/trl.git", "machine git.example"),
        ("https://me:sesame@host.example/ours-1.0-py3-none-any.whl", "holds credentials"),
        ("https://host.example/ours-1.0.tar.gz", 'write "NAME @ https://host.example/ours-1.0.tar.gz"'),
        ("https://host.example/ours.whl", "not a wheel's file name"),
        ("numpy @ file:///home/conda/feedstock_root/numpy_17/work", 'conda built it there), not a package; write "'),
        ("numpy @ file:///croot/numpy_17/work", "conda built it there"),
        ("numpy @ file:///gone/numpy-2.0-cp313-cp313-linux_x86_64.whl", "pip freeze tells where"),
        ("ours @ file://host/x.whl", "names a host"),
        ("./gone-1.0-py3-none-any.whl", "there is no file"),
        ("./ours.whl", "not a wheel's file name"),
        ("./wheel.whl", "not a wheel's file name"),
        (f"theirs @ ./{WHEEL}", "is a wheel of ours, not of theirs"),
        ("./src-1.0.tar.gz", "pip wheel --no-deps"),
        (".", "[[image.copy]]"),
        (".[dev]", "[[image.copy]]"),
        ("ours @ file:code", "code is not a wheel; put it into the image with [[image.copy]]"),
        ("ours @ https://x.example/ a.whl", "is not a requirement ("),
        ("./a[b]c[d].whl", "is not a path"),
        (f"./{WHEEL} ; python > 3", "is not a requirement ("),
        ("trl @ https://[x/y.whl", "is not a URL (Invalid IPv6 URL)"),
        ("./code", "[[image.copy]]"),
        ("pyproject.toml", "not a wheel; write the path of a wheel, or of a requirements file"),
        ("~/x/ours-1.0-py3-none-any.whl", "not expanded"),
        ("-e .", "put your own code into the image with [[image.copy]]"),
        ("-e git+https://git.example/t.git#egg=trl", 'write "trl @ git+https://git.example/t.git"'),
        ("--index-url https://me:sesame@index.example/simple", "[[index]]"),
        ("-i https://index.example/simple", "pip's option --index-url"),
        ("--extra-index-url=https://index.example/cu128", "[[index]]"),
        ("-f ./wheels", "[[index]]"),
        ("--find-links ./wheels", "[[index]]"),
        ("--trusted-host index.example", "pip's or uv's own configuration"),
        ("--no-binary :all:", "allow-sdist"),
        ("--only-binary=:all:", "allow-sdist"),
        ("--pre", "torch>=2.9.0rc1"),
        ("--require-hashes", "delete the option"),
        ("--what-ever x", "pip's option --what-ever has no place here; delete the option"),
        ("x --config-settings=a=b", "pip's option --config-settings"),
        ("-r", "write -r FILE"),
        ("-r https://host.example/r.txt", "is not on this machine"),
        ("-r gone.txt", "No such file"),
        ("gone.txt", "No such file"),
        ("-r code", "Is a directory"),
        ("x==${VERSION}", "${VERSION} is a variable"),
        ("x @ https://${TOKEN}@git.example/x.whl", "${TOKEN} is a variable"),
    ],
)  # fmt: skip
def test_what_is_no_requirement_is_told_with_what_to_write(tmp_path: Path, written: str, told: str) -> None:
    touch_wheel(tmp_path, WHEEL)
    touch_wheel(tmp_path, "wheel.whl")
    (tmp_path / "code").mkdir()
    (fault,) = faults_of(tmp_path, requirements("click", written))
    assert fault.startswith("envlock.toml:6: python.requirements[1]: ")
    assert told in fault
    assert "sesame" not in fault
    # The same line in a requirements file is told with that file's line.
    (tmp_path / "r.txt").write_text(f"\n{written}\n")
    if not written.endswith("gone.txt"):  # a path alone is a file to read in envlock.toml only
        (fault,) = faults_of(tmp_path, requirements("-r r.txt"))
        assert fault.startswith("r.txt:2: ")
        assert told in fault


FILE = """\
# Comments, and blank lines

torch>=2.6    # like this
transformers \\
    >=5, \\
    <6
-r nested/more.txt
--constraint=nested/limits.txt
numpy==2.0 \\
    --hash=sha256:00 \\
    --hash=sha256:11
peft \\
# a comment ends what is continued
accelerate \\"""


def test_a_requirements_file_is_read_as_pip_reads_it(tmp_path: Path) -> None:
    nested = tmp_path / "nested"
    touch_wheel(nested, WHEEL)
    (nested / "more.txt").write_text(f"./{WHEEL}\n-c limits.txt\n-rdeeper.txt\n")
    (nested / "deeper.txt").write_text("click")
    (nested / "limits.txt").write_text("scipy<2\n-c ../other.txt")
    (tmp_path / "other.txt").write_text("pandas<3\n")
    (tmp_path / "requirements.txt").write_text(FILE)
    python = spec_of(tmp_path, requirements("requirements.txt")).python
    assert [(requirement.text, requirement.origin) for requirement in python.requirements] == [
        ("torch>=2.6", "requirements.txt:3"),
        ("transformers<6,>=5", "requirements.txt:4"),
        (f"ours @ {(nested / WHEEL).as_uri()}", "nested/more.txt:1"),
        ("click", "nested/deeper.txt:1"),
        ("numpy==2.0", "requirements.txt:9"),
        ("peft", "requirements.txt:12"),
        ("accelerate", "requirements.txt:14"),
    ]
    assert [(constraint.text, constraint.origin) for constraint in python.constraints] == [
        ("scipy<2", "nested/limits.txt:1"),
        ("pandas<3", "other.txt:1"),
    ]


def test_every_fault_of_every_file_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("torch\n-r b.txt\ntorch=2\n")
    (tmp_path / "b.txt").write_text("numpy \\\n  2\n-r gone.txt\n-r a.txt\n")
    faults = faults_of(tmp_path, requirements("-r a.txt", "x=1"))
    assert [fault.split(": ")[0] for fault in faults] == [
        "envlock.toml:6",
        "a.txt:3",
        "b.txt:1",
        "b.txt:3",
        "b.txt:4",
    ]
    assert "includes itself (a.txt -> b.txt -> a.txt); delete this line" in faults[-1]


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    for number in range(30):  # read each time it is named, this would take 2**30 readings
        (tmp_path / f"{number}.txt").write_text(f"-r {number + 1}.txt\n-r {number + 1}.txt\np{number}\n")
    (tmp_path / "30.txt").write_text("last\n")
    assert len(texts(tmp_path, "-r 0.txt")) == 31


def test_files_that_include_files_without_end_are_refused(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"{number}.txt").write_text(f"-r {number + 1}.txt\n")
    (fault,) = faults_of(tmp_path, requirements("-r 0.txt"))
    assert fault.startswith("39.txt:1: files include files 40 deep")


@pytest.mark.parametrize(
    "data",
    [
        codecs.BOM_UTF8 + b"torch\r\nnumpy\r\n",
        codecs.BOM_UTF16_LE + "torch\r\nnumpy\r\n".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "torch\nnumpy\n".encode("utf-16-be"),
    ],
)
def test_what_windows_writes_is_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "r.txt").write_bytes(data)
    assert texts(tmp_path, "-r r.txt") == ["torch", "numpy"]


def test_what_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_bytes(b"\xff\x00torch")
    (fault,) = faults_of(tmp_path, requirements("-r r.txt"))
    assert "is not text in UTF-8; save it as UTF-8" in fault


def test_files_beside_the_folder_are_named_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "common.txt").write_text("torch=2\n")
    (fault,) = faults_of(tmp_path / "spec", requirements("-r ../common.txt"))
    assert fault.startswith("../common.txt:1: ")


def test_a_file_in_a_file_needs_its_option(tmp_path: Path) -> None:
    (tmp_path / "r.txt").write_text("./more.txt\n")
    (fault,) = faults_of(tmp_path, requirements("-r r.txt"))
    assert fault == 'r.txt:1: "./more.txt" is not a wheel; write -r more.txt'


def test_links_that_go_in_circles_are_told(tmp_path: Path) -> None:
    (tmp_path / "r.txt").symlink_to("r.txt")
    (fault,) = faults_of(tmp_path, requirements("-r r.txt"))
    assert "Too many levels of symbolic links" in fault


def test_constraints_hold_constraints_only(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("numpy<3\nscipy[x]<2\n-r r.txt\n-e .\n")
    faults = faults_of(tmp_path, SMALLEST + 'constraints = ["c.txt"]')
    assert [fault.split(": ")[0] for fault in faults] == ["c.txt:2", "c.txt:3", "c.txt:4"]


def test_a_hash_inside_a_word_begins_no_comment() -> None:
    assert list(logical_lines("a @ https://x.example/a#egg=a # c\n#b\n\\\n\n  c")) == [
        (1, "a @ https://x.example/a#egg=a"),
        (5, "c"),
    ]
