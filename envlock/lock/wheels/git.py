"""`name @ git+URL@ref`: a commit of a git repository as the source of a wheel."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from envlock.errors import FaultyInput, MachineLacks
from envlock.fetch.urls import mask_text
from envlock.lock.model import BuildRequirement, BuiltFrom
from envlock.lock.wheels.sdist import EPOCH

__all__ = ["Git", "GitPlace", "GitSource", "parse_git_url"]

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT = re.compile(r"[0-9a-f]{7,39}")
_SCHEMES = ("https", "http", "ssh", "file", "git")
# What a user's own configuration might change about the bytes that are checked out.
_SAME_BYTES = (
    "core.autocrlf=false",
    "core.eol=lf",
    "core.symlinks=true",
    "core.fileMode=true",
    "core.safecrlf=false",
)
_NO_FILTERS = ("filter.lfs.smudge=", "filter.lfs.process=", "filter.lfs.required=false")
_TIMEOUT = 1800.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class GitPlace:
    """Where a requirement points: `url` without "git+" and credentials, `ref` as written, `subdirectory` or None."""

    url: str
    ref: str | None
    subdirectory: str | None
    authorization: str | None = field(default=None, repr=False)  # value of an HTTP header; stands in no lock

    @property
    def requirement_url(self) -> str:
        """As a requirement writes it, without credentials."""
        ref = f"@{self.ref}" if self.ref else ""
        fragment = f"#subdirectory={self.subdirectory}" if self.subdirectory else ""
        return f"git+{self.url}{ref}{fragment}"


def parse_git_url(url: str, origin: str) -> GitPlace:
    """Read `git+https://host/repo@ref#subdirectory=path`; raises FaultyInput "git-url"."""
    parts = urlsplit(url.removeprefix("git+"))
    path, _, ref = parts.path.rpartition("@") if "@" in parts.path else (parts.path, "", "")
    options = dict(parse_qsl(parts.fragment))
    subdirectory = options.get("subdirectory", "").strip("/") or None
    leaves = subdirectory is not None and ".." in PurePosixPath(subdirectory).parts
    if parts.scheme not in _SCHEMES or not path.strip("/") or ref.startswith("-") or leaves:
        raise FaultyInput(
            f"{origin}: {mask_text(url)} is not the URL of a git repository",
            hint="Write it as name @ git+https://host/repository@ref, with #subdirectory=path where due.",
            code="git-url",
        )
    userinfo, _, host = parts.netloc.rpartition("@")
    authorization = None
    if parts.scheme in ("http", "https") and userinfo:
        token = base64.b64encode(unquote(userinfo).encode()).decode()
        authorization, netloc = f"Authorization: Basic {token}", host
    else:  # ssh's user name is part of the address, and a password would be none of ours
        netloc = f"{userinfo.partition(':')[0]}@{host}" if userinfo else host
    plain = urlunsplit((parts.scheme, netloc, path, "", ""))
    return GitPlace(url=plain, ref=unquote(ref) or None, subdirectory=subdirectory, authorization=authorization)


class Git:
    """Runs git, with the user's own configuration for reaching servers and none for what is checked out."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def commit(self, place: GitPlace) -> str:
        """The commit that a place's ref names now: a branch before a tag, as pip has it.

        Raises FaultyInput "git-ref", MachineLacks "git-failed" or "git-missing".
        """
        ref = place.ref or "HEAD"
        if _COMMIT.fullmatch(ref):
            return ref
        listed = self._run(place, ["ls-remote", "--", place.url])
        commits = {name: commit for commit, _, name in (line.partition("\t") for line in listed.splitlines())}
        for name in (f"refs/heads/{ref}", f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", ref):
            if name in commits:
                return commits[name]
        short = sorted({commit for commit in commits.values() if commit.startswith(ref)})
        if _SHORT.fullmatch(ref) and len(short) == 1:
            return short[0]
        raise FaultyInput(
            f"{place.url} has no branch, tag or ref {ref!r}",
            hint="Correct it; a commit is to be written with all its 40 digits.",
            code="git-ref",
        )

    def check_out(self, place: GitPlace, commit: str, folder: Path) -> None:
        """Clone into a new folder, with history and tags (versions are taken from them), but few old contents."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        clone = [
            "clone",
            "--quiet",
            "--no-checkout",
            "--filter=blob:none",
            "--template=",
            "--",
            place.url,
            str(folder),
        ]
        self._run(place, clone)
        inside = ["-C", str(folder)]
        if not self._has(place, folder, commit):
            self._run(place, [*inside, "fetch", "--quiet", "origin", commit])
        self._run(place, [*inside, "checkout", "--quiet", "--detach", commit])
        if (folder / ".gitmodules").is_file():
            self._run(place, [*inside, "submodule", "--quiet", "update", "--init", "--recursive"])

    def _has(self, place: GitPlace, folder: Path, commit: str) -> bool:
        # No lazy fetching here: the question is whether the clone brought it.
        command = self._command(["-C", str(folder), "cat-file", "-e", f"{commit}^{{commit}}"])
        environment = self._environment(place) | {"GIT_NO_LAZY_FETCH": "1"}
        return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0

    def _run(self, place: GitPlace, words: Sequence[str]) -> str:
        try:
            done = subprocess.run(
                self._command(words),
                env=self._environment(place),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
                umask=0o022,
            )
        except FileNotFoundError as exc:
            raise MachineLacks(
                f"git is needed for {place.url}, and is not installed",
                hint="Install git (on Debian: apt-get install git).",
                code="git-missing",
            ) from exc
        except subprocess.TimeoutExpired as exc:
            raise self._failed(place, f"it took longer than {_TIMEOUT:.0f} s") from exc
        if done.returncode != 0:
            raise self._failed(place, done.stderr.decode("utf-8", "replace").strip())
        return done.stdout.decode("utf-8", "replace")

    def _failed(self, place: GitPlace, why: str) -> MachineLacks:
        return MachineLacks(
            f"git could not get {place.url}: {mask_text(why)}",
            hint="See whether the URL is right and `git ls-remote` reaches it from here, with your credentials.",
            code="git-failed",
        )

    def _command(self, words: Sequence[str]) -> list[str]:
        settings = [word for setting in (*_SAME_BYTES, *_NO_FILTERS) for word in ("-c", setting)]
        return ["git", *settings, "-c", "advice.detachedHead=false", *words]

    def _environment(self, place: GitPlace) -> dict[str, str]:
        environment = dict(self._environ)
        # Where another repository surrounds us (a hook runs envlock, say), git must not work on that one.
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
            environment.pop(name, None)
        environment |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}
        environment.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
        if place.authorization:  # by the environment, as other users can read command lines
            server = "{0.scheme}://{0.netloc}/".format(urlsplit(place.url))
            count = int(environment.get("GIT_CONFIG_COUNT") or 0)
            environment |= {
                "GIT_CONFIG_COUNT": str(count + 1),
                f"GIT_CONFIG_KEY_{count}": f"http.{server}.extraHeader",
                f"GIT_CONFIG_VALUE_{count}": place.authorization,
            }
        return environment


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSource:
    """One commit of a repository."""

    name: str
    place: GitPlace
    commit: str
    git: Git

    @property
    def label(self) -> str:
        """For talk."""
        return f"{self.place.url} at {self.commit[:12]}"

    @property
    def key(self) -> str:
        """What identifies the bytes that are built: version numbers may come from the tags of this very place."""
        return f"git {self.place.url} {self.commit} {self.place.subdirectory or ''}"

    def unpack(self, folder: Path) -> Path:
        """Check the commit out into `folder`; returns the project's root."""
        self.git.check_out(self.place, self.commit, folder)
        root = folder / (self.place.subdirectory or "")
        if not root.is_dir() or not root.resolve().is_relative_to(folder.resolve()):
            shutil.rmtree(folder)
            raise FaultyInput(
                f"{self.label} has no folder {self.place.subdirectory}",
                hint="Correct what stands after #subdirectory=.",
                code="git-subdirectory",
            )
        for path, folders, files in os.walk(folder):
            folders[:] = [name for name in folders if name != ".git"]
            for name in (*files, *folders):
                os.utime(Path(path, name), (EPOCH, EPOCH), follow_symlinks=False)
        return root

    def built_from(self, python: str, requires: tuple[BuildRequirement, ...]) -> BuiltFrom:
        """What a lock says of it."""
        return BuiltFrom(
            url=self.place.url,
            commit=self.commit,
            subdirectory=self.place.subdirectory,
            python=python,
            requires=requires,
        )
