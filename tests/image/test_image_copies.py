"""The user's own code: what is taken, what is refused, and what is left out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from envlock.errors import FaultyInput, MachineLacks
from envlock.image.layers.copied import CopiedTree
from envlock.image.layers.entries import DeflatedBody, Directory, Entry, File, Symlink
from envlock.image.layers.files import copied_entries, read_copies, read_copy
from envlock.image.user import ImageUser, image_user
from envlock.spec.model import CopySpec

ENVIRON = {"PATH": os.environ["PATH"]}
PRIVATE_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEA\n"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "pkg").mkdir(parents=True)
    (folder / "train.py").write_text("print()\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o750)
    (folder / "pkg" / "__init__.py").write_text("")
    return folder


def copied(code: Path, *, ignore: tuple[str, ...] = (), tracked: bool = False, to: str = "/work") -> CopiedTree:
    copy = CopySpec(source=code, to=PurePosixPath(to), ignore=ignore, tracked=tracked)
    return read_copy(copy, code.parent, ENVIRON)


def paths(tree: CopiedTree) -> list[str]:
    return [file.path for file in tree.files if file.path]


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "init.defaultBranch=main")
    command = ["git", *identity, "-C", str(folder), *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def refused(code: Path, *, tracked: bool = False) -> FaultyInput:
    with pytest.raises(FaultyInput) as fault:
        copied(code, tracked=tracked)
    return fault.value


def test_a_folder_is_taken_sorted_with_plain_modes(code: Path) -> None:
    tree = copied(code)
    assert [(file.path, file.mode) for file in tree.files] == [
        ("", 0o755),
        ("pkg", 0o755),
        ("pkg/__init__.py", 0o644),
        ("run.sh", 0o755),
        ("train.py", 0o644),
    ]
    assert (tree.label, tree.count, tree.size) == ("code", 3, 18)


def test_the_digest_is_over_names_modes_and_contents_and_not_over_the_place(code: Path, tmp_path: Path) -> None:
    before = copied(code).digest
    moved = tmp_path / "elsewhere"
    code.rename(moved)
    assert copied(moved, to="/other").digest == before
    (moved / "train.py").chmod(0o755)
    assert copied(moved).digest != before


def test_one_file_is_its_place(code: Path) -> None:
    tree = copied(code / "train.py", to="/code/main.py")
    assert [entry.path for entry in copied_entries(tree, ImageUser())] == ["code/main.py"]


def test_patterns_are_those_of_gitignore(code: Path) -> None:
    for name in ("a.log", "keep.log", "outputs/x.bin", "pkg/outputs.py"):
        (code / name).parent.mkdir(exist_ok=True)
        (code / name).write_text("x")
    tree = copied(code, ignore=("*.log", "!keep.log", "outputs/", "/run.sh"))
    assert paths(tree) == ["keep.log", "pkg", "pkg/__init__.py", "pkg/outputs.py", "train.py"]


def test_version_control_bytecode_and_environments_are_left_out(code: Path) -> None:
    for name in (".git/config", "__pycache__/a.pyc", "pkg/b.pyo", ".venv/pyvenv.cfg", "out/oci-layout"):
        (code / name).parent.mkdir(exist_ok=True)
        (code / name).write_text("x")
    (code / ".git" / "config").unlink()
    (code / ".git").rmdir()
    tree = copied(code)
    assert paths(tree) == ["pkg", "pkg/__init__.py", "run.sh", "train.py"]
    assert tree.notes == (".venv is a virtual environment, and was left out", "out is an image, and was left out")


def test_what_this_build_writes_is_left_out(code: Path) -> None:
    (code / "out" / "small" / "image").mkdir(parents=True)
    (code / "out" / "small" / "image" / "x").write_text("x")
    (code / "pkg" / "image.tar").write_text("x")
    (code / ".image.tar.envlock-part").write_text("x")
    copy = CopySpec(source=code, to=PurePosixPath("/work"))
    outputs = [code / "out" / "small" / "image", code / "pkg" / "image.tar"]
    (tree,) = read_copies([copy], code.parent, ENVIRON, outputs=outputs)
    assert paths(tree) == ["pkg", "pkg/__init__.py", "run.sh", "train.py"]


def test_links_inside_stay_links(code: Path) -> None:
    (code / "pkg" / "up.py").symlink_to("../train.py")
    entries = {entry.path: entry for entry in copied_entries(copied(code), ImageUser())}
    assert entries["work/pkg/up.py"] == Symlink(path="work/pkg/up.py", target="../train.py")


def test_links_that_go_in_circles_stay_links(code: Path) -> None:
    (code / "one").symlink_to("two")
    (code / "two").symlink_to("one")
    (code / "self").symlink_to(".")
    entries = {entry.path: entry for entry in copied_entries(copied(code), ImageUser())}
    for name, target in (("one", "two"), ("two", "one"), ("self", ".")):
        assert entries[f"work/{name}"] == Symlink(path=f"work/{name}", target=target)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../secret", "pkg/../../secret"])
def test_links_that_leave_are_refused(code: Path, target: str) -> None:
    (code / "link").symlink_to(target)
    fault = refused(code)
    assert (fault.code, "link is a link to" in fault.message) == ("copy-faulty", True)


def test_a_link_that_leaves_by_another_link_is_refused(code: Path) -> None:
    (code / "a" / "b").mkdir(parents=True)
    (code / "a" / "b" / "top").symlink_to("../..")
    (code / "x").symlink_to("a/b/top/../outside")
    assert "x is a link to" in refused(code).message


def test_all_that_cannot_be_copied_is_told_at_once(code: Path) -> None:
    os.mkfifo(code / "pipe")
    (code / ".wh.gone").write_text("")
    (code / "link").symlink_to("/dev/null")
    (Path(os.fsdecode(os.fsencode(code) + b"/\xff"))).write_text("")
    message = refused(code).message
    for part in ("pipe is neither", ".wh.gone would delete", "link is a link", r"'\xff' is not a UTF-8 name"):
        assert part in message


@pytest.mark.parametrize(
    "name", [".env", ".env.local", ".netrc", "id_rsa", ".ssh/config", ".aws/credentials", "kaggle.json", ".pypirc"]
)
def test_files_that_hold_secrets_by_their_names_are_refused(code: Path, name: str) -> None:
    (code / name).parent.mkdir(exist_ok=True)
    (code / name).write_text("x")
    fault = refused(code)
    assert (fault.code, name in fault.message) == ("copy-private", True)


def test_a_private_key_is_known_by_its_first_line(code: Path) -> None:
    (code / "server.pem").write_text(PRIVATE_KEY)
    (code / "about.md").write_text("Keys begin with `-----BEGIN PRIVATE KEY-----`.\n")
    (code / ".env.example").write_text("TOKEN=\n")
    message = refused(code).message
    assert "server.pem" in message
    assert "about.md" not in message
    assert ".env.example" not in message


def test_a_private_file_can_be_named_or_ignored(code: Path) -> None:
    (code / ".env").write_text("A=1\n")
    assert ".env" not in paths(copied(code, ignore=(".env",)))
    assert copied(code / ".env", to="/work/.env").count == 1


def test_tracked_takes_what_git_tracks_and_tells_the_commit(code: Path) -> None:
    git(code, "init", "-q")
    git(code, "add", "train.py", "pkg")
    git(code, "commit", "-q", "-m", "first")
    (code / "scratch.txt").write_text("x")
    tree = copied(code, tracked=True)
    assert paths(tree) == ["pkg", "pkg/__init__.py", "train.py"]
    assert (tree.commit, tree.dirty, tree.tracked) == (git(code, "rev-parse", "HEAD"), False, True)
    assert copied(code).dirty  # scratch.txt is copied, and is in no commit
    (code / "train.py").unlink()
    changed = copied(code, tracked=True)
    assert changed.dirty
    assert changed.notes == ("train.py is tracked by git, and deleted here: it was left out",)
    assert paths(copied(code, tracked=True, ignore=("pkg/",))) == []


def test_a_repository_without_a_commit_has_none(code: Path) -> None:
    git(code, "init", "-q")
    tree = copied(code)
    assert (tree.commit, tree.dirty) == (None, True)


def test_tracked_without_git_or_work_tree_is_told(code: Path) -> None:
    assert refused(code, tracked=True).code == "no-work-tree"
    with pytest.raises(MachineLacks) as lacks:
        read_copy(CopySpec(source=code, to=PurePosixPath("/w"), tracked=True), code.parent, {"PATH": "/nowhere"})
    assert lacks.value.code == "no-git"


def test_a_file_that_changes_after_it_was_read_is_a_fault(code: Path) -> None:
    tree = copied(code)
    for text in ("print(1)\n", "", "print!\n\n"):
        (code / "train.py").write_text(text)
        entry = next(entry for entry in copied_entries(tree, ImageUser()) if entry.path == "work/train.py")
        with pytest.raises(FaultyInput, match="changed while") as fault:
            read(entry)
        assert fault.value.code == "copy-changed"


def read(entry: Entry) -> bytes:
    assert isinstance(entry, File)
    assert not isinstance(entry.body, bytes | DeflatedBody)
    return b"".join(entry.body.chunks())


def test_files_are_the_users_but_the_systems_places_are_roots(code: Path) -> None:
    user = image_user("trainer")
    own = {entry.path: entry for entry in copied_entries(copied(code, to="/work"), user)}
    system = {entry.path: entry for entry in copied_entries(copied(code, to="/usr/local/share/x"), user)}
    assert own["work/pkg"] == Directory(path="work/pkg", uid=1000, gid=1000)
    assert (own["work/run.sh"].uid, system["usr/local/share/x/run.sh"].uid) == (1000, 0)
    assert system["usr/local/share/x"] == Directory(path="usr/local/share/x")
    assert read(own["work/train.py"]) == b"print()\n"


def test_a_source_elsewhere_is_called_by_its_name_alone(code: Path, tmp_path: Path) -> None:
    copy = CopySpec(source=code, to=PurePosixPath("/work"))
    assert read_copy(copy, tmp_path / "spec", ENVIRON).label == "code"
