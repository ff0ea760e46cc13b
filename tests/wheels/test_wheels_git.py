from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from wheels_kit import backend_source

from envlock.errors import FaultyInput, MachineLacks
from envlock.lock.wheels.git import Git, GitSource, parse_git_url

GIT = Git(os.environ)


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits on `main`, a branch `side`, a tag `v1` on the first; the project is in `sub`."""
    folder = tmp_path / "repository"
    (folder / "sub" / "tools").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in backend_source("tool", "1.0").items():
        (folder / "sub" / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "tag", "-a", "v1", "-m", "one")
    (folder / "run.sh").write_text("#!/bin/sh\r\n")
    (folder / "run.sh").chmod(0o755)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "second")
    git(folder, "branch", "side")
    return folder


@pytest.mark.parametrize(
    ("written", "url", "ref", "subdirectory"),
    [
        ("git+https://host.example/a/b", "https://host.example/a/b", None, None),
        ("git+https://host.example/a/b.git@v1.0", "https://host.example/a/b.git", "v1.0", None),
        (
            "git+https://host.example/a/b@feature/x#subdirectory=py&egg=b",
            "https://host.example/a/b",
            "feature/x",
            "py",
        ),
        ("git+ssh://git@host.example/a/b@main", "ssh://git@host.example/a/b", "main", None),
        ("git+https://me:secret@host.example/a/b@main", "https://host.example/a/b", "main", None),
    ],
)
def test_urls_are_read(written: str, url: str, ref: str | None, subdirectory: str | None) -> None:
    place = parse_git_url(written, "envlock.toml")
    assert (place.url, place.ref, place.subdirectory) == (url, ref, subdirectory)
    assert "secret" not in repr(place)
    assert "secret" not in place.requirement_url


@pytest.mark.parametrize(
    "written",
    [
        "git+host/a/b",
        "git+https://host.example",
        "git+https://h.example/a@-x",
        "git+ext::sh -c x",
        "git+https://h.example/a#subdirectory=../b",
    ],
)
def test_what_is_no_repository_s_url_is_refused(written: str) -> None:
    with pytest.raises(FaultyInput) as caught:
        parse_git_url(written, "envlock.toml: python.requirements[0]")
    assert caught.value.code == "git-url"


def test_branches_tags_and_commits_become_commits(repository: Path) -> None:
    first, second = git(repository, "rev-parse", "v1^{commit}"), git(repository, "rev-parse", "main")
    url = f"git+file://{repository}"
    for ref, commit in {"": second, "@main": second, "@side": second, "@v1": first, f"@{first}": first}.items():
        assert GIT.commit(parse_git_url(url + ref, "x")) == commit
    assert GIT.commit(parse_git_url(f"{url}@{second[:10]}", "x")) == second


def test_a_ref_that_is_not_there_is_told(repository: Path) -> None:
    with pytest.raises(FaultyInput) as caught:
        GIT.commit(parse_git_url(f"git+file://{repository}@nowhere", "x"))
    assert caught.value.code == "git-ref"


def test_a_repository_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MachineLacks) as caught:
        GIT.commit(parse_git_url(f"git+file://{tmp_path}/none", "x"))
    assert caught.value.code == "git-failed"


def test_a_machine_without_git_is_told(tmp_path: Path) -> None:
    with pytest.raises(MachineLacks) as caught:
        Git({"PATH": str(tmp_path)}).commit(parse_git_url("git+file:///x", "x"))
    assert caught.value.code == "git-missing"


def test_a_commit_is_checked_out_as_it_is(repository: Path, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "main")
    place = parse_git_url(f"git+file://{repository}@main#subdirectory=sub", "x")
    source = GitSource(name="tool", place=place, commit=commit, git=GIT)
    assert source.unpack(tmp_path / "out") == tmp_path / "out" / "sub"
    assert (tmp_path / "out" / "run.sh").read_bytes() == b"#!/bin/sh\r\n"
    assert os.access(tmp_path / "out" / "run.sh", os.X_OK)
    assert git(tmp_path / "out", "describe", "--tags").startswith("v1-1-")
    built = source.built_from("3.11", ())
    assert (built.url, built.commit, built.subdirectory) == (f"file://{repository}", commit, "sub")


def test_a_folder_that_is_not_there_is_told(repository: Path, tmp_path: Path) -> None:
    place = parse_git_url(f"git+file://{repository}#subdirectory=none", "x")
    source = GitSource(name="tool", place=place, commit=git(repository, "rev-parse", "main"), git=GIT)
    with pytest.raises(FaultyInput) as caught:
        source.unpack(tmp_path / "out")
    assert caught.value.code == "git-subdirectory"


def test_a_commit_on_no_branch_is_fetched(repository: Path, tmp_path: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    (repository / "lost").write_text("x")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "lost")
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "update-ref", "refs/pull/7/head", commit)
    git(repository, "checkout", "-q", "main")
    place = parse_git_url(f"git+file://{repository}@refs/pull/7/head", "x")
    assert GIT.commit(place) == commit
    GIT.check_out(place, commit, tmp_path / "out")
    assert (tmp_path / "out" / "lost").is_file()


def test_the_user_s_own_settings_do_not_change_the_bytes(repository: Path, tmp_path: Path) -> None:
    config = tmp_path / "gitconfig"
    config.write_text("[core]\n\tautocrlf = true\n\teol = crlf\n\tfileMode = false\n")
    place = parse_git_url(f"git+file://{repository}", "x")
    Git(os.environ | {"GIT_CONFIG_GLOBAL": str(config)}).check_out(
        place, git(repository, "rev-parse", "main"), tmp_path / "out"
    )
    assert b"\r" not in (tmp_path / "out" / "sub" / "pyproject.toml").read_bytes()
    assert os.access(tmp_path / "out" / "run.sh", os.X_OK)


def test_submodules_come_along(repository: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q", "-b", "main")
    git(outer, "submodule", "--quiet", "add", f"file://{repository}", "inner")
    git(outer, "commit", "-q", "-m", "outer")
    place = parse_git_url(f"git+file://{outer}", "x")
    config = tmp_path / "gitconfig"  # git refuses submodules from files unless it is told; servers' need no telling
    config.write_text('[protocol "file"]\n\tallow = always\n')
    Git(os.environ | {"GIT_CONFIG_GLOBAL": str(config)}).check_out(
        place, git(outer, "rev-parse", "main"), tmp_path / "out"
    )
    assert (tmp_path / "out" / "inner" / "run.sh").is_file()


def test_credentials_go_by_the_environment_and_not_the_command_line(tmp_path: Path) -> None:
    """A stand-in for git writes down what it is given."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!{shutil.which("sh")}\necho "$@" > {tmp_path}/words\nenv > {tmp_path}/env\nexit 1\n')
    program.chmod(0o755)
    with pytest.raises(MachineLacks) as caught:
        Git({"PATH": f"{program.parent}:/usr/bin:/bin"}).commit(
            parse_git_url("git+https://me:secret@host.example/a@main", "x")
        )
    assert "secret" not in (tmp_path / "words").read_text()
    assert "secret" not in caught.value.message
    assert "Authorization: Basic bWU6c2VjcmV0" in (tmp_path / "env").read_text()
