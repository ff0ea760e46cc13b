"""Requirements that name one place, `name @ URL`: a wheel, a source distribution, a git commit, a local file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qsl, urldefrag

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from envlock.digest import Digest
from envlock.errors import FaultyInput, Unsatisfiable
from envlock.fetch.model import IndexFile
from envlock.fetch.remote_wheel import read_metadata
from envlock.fetch.simple import IndexClient
from envlock.fetch.streams import Fetched
from envlock.fetch.urls import file_name, local_path, mask
from envlock.lock.model import BuiltFrom, LockedWheel
from envlock.lock.wheels.asks import Ask
from envlock.lock.wheels.builder import Source
from envlock.lock.wheels.catalogue import Ready
from envlock.lock.wheels.git import Git, GitSource, parse_git_url
from envlock.lock.wheels.metadata import WheelMetadata, read_wheel_metadata
from envlock.lock.wheels.offers import is_sdist
from envlock.lock.wheels.sdist import SdistSource
from envlock.lock.wheels.tags import Fit, tags_of
from envlock.platforms import Platform

__all__ = ["Directs", "without_urls"]

_REQUIRES = re.compile(rb"^Requires-Dist:[ \t]*(.*?)\r?$", re.MULTILINE | re.IGNORECASE)

Build = Callable[[Source, BuiltFrom | None], Ready]
"""Makes a wheel of a source; the second argument is what an earlier lock says of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directs:
    """Makes the one wheel of each requirement with a URL. `kept` are wheels of an earlier lock, by name."""

    client: IndexClient
    git: Git
    build: Build
    fit: Fit
    platform: Platform
    spec_folder: Path
    kept: Mapping[str, LockedWheel]

    def ready(self, ask: Ask) -> Ready:
        """Fetch or build it, and see that it is what its requirement says and fits the target.

        Raises FaultyInput "direct-url", "wheel-faulty", "direct-changed", Unsatisfiable "wheel-misfit", and what
        fetching and building raise.
        """
        url = ask.url or ""
        if url.startswith("git+"):
            ready = self._from_git(ask, url)
        elif (path := local_path(urldefrag(url).url)) is not None:
            ready = self._from_file(ask, path)
        else:
            ready = self._from_url(ask, url)
        self._check(ask, ready)
        return ready

    def _from_git(self, ask: Ask, url: str) -> Ready:
        place = parse_git_url(url, ask.origin)
        kept = self._kept_at(ask, place.requirement_url)
        known = kept.built_from if kept is not None else None
        commit = (known.commit if known is not None else None) or self.git.commit(place)
        ready = self.build(GitSource(name=ask.name, place=place, commit=commit, git=self.git), known)
        return _named(ready, place.requirement_url)

    def _from_file(self, ask: Ask, path: Path) -> Ready:
        if path.suffix != ".whl" or not path.is_file():
            what = "a folder" if path.is_dir() else "no wheel" if path.exists() else "not there"
            raise FaultyInput(
                f"{ask.origin}: {path} is {what}",
                hint="Name a wheel file. A folder's wheel is built by `python -m build --wheel`; your own code can "
                "also be copied as it is, with [[image.copy]].",
                code="direct-url",
            )
        whole = self.client.whole(IndexFile(file=path.name, url=path.as_uri()))
        relative = Path(os.path.relpath(path, self.spec_folder)).as_posix()
        return self._wheel(ask, path.name, whole, index="local", path=relative)

    def _from_url(self, ask: Ask, url: str) -> Ready:
        plain, _, fragment = self.client.http.remember(url).partition("#")
        file = file_name(plain)
        stated = _stated_hash(ask, fragment)
        kept = self._kept_at(ask, plain)
        if file.endswith(".whl"):
            before = kept.sha256 if kept is not None else None
            whole = self._whole(ask, file, plain, stated or before, kept=before is not None)
            return self._wheel(ask, file, whole, index="direct", url=plain)
        if not is_sdist(file):
            raise FaultyInput(
                f"{ask.origin}: {mask(plain)} names neither a wheel nor a source distribution",
                hint="Write name @ https://.../file.whl, .../file.tar.gz, or git+https://...",
                code="direct-url",
            )
        known = kept.built_from if kept is not None else None
        before = known.sha256 if known is not None else None
        whole = self._whole(ask, file, plain, stated or before, kept=before is not None)
        source = SdistSource(
            name=ask.name,
            path=whole.path,
            file=file,
            size=whole.size,
            sha256=whole.sha256,
            index="direct",
            url=plain,
        )
        return _named(self.build(source, known), plain)

    def _whole(self, ask: Ask, file: str, url: str, expected: Digest | None, *, kept: bool) -> Fetched:
        try:
            return self.client.whole(IndexFile(file=file, url=url, sha256=expected))
        except FaultyInput as exc:
            if exc.code != "hash-mismatch" or not kept:
                raise
            raise FaultyInput(
                f"{ask.origin}: {mask(url)} serves another file than when it was locked: {exc.message}",
                hint=f"If that is right, take it with --upgrade-package {ask.name}.",
                code="direct-changed",
            ) from exc

    def _wheel(
        self, ask: Ask, file: str, whole: Fetched, *, index: str, url: str | None = None, path: str | None = None
    ) -> Ready:
        with whole.path.open("rb") as opened:
            metadata = read_metadata(opened, file)
        wheel = LockedWheel(
            name=ask.name,
            version=str(read_wheel_metadata(metadata, file).version),
            file=file,
            size=whole.size,
            sha256=whole.sha256,
            index=index,
            platforms=(self.platform,),
            hash_source="computed",
            direct_url=url,
            path=path,
        )
        return Ready(wheel, whole.path, metadata)

    def _kept_at(self, ask: Ask, url: str) -> LockedWheel | None:
        kept = self.kept.get(ask.name)
        return kept if kept is not None and kept.direct_url == url else None

    def _check(self, ask: Ask, ready: Ready) -> None:
        file = ready.wheel.file
        stated = read_wheel_metadata(ready.metadata, file)
        if stated.name != ask.name:
            raise FaultyInput(
                f"{ask.origin}: {file} is {stated.name}, not {ask.name}",
                hint=f"Write {stated.name} @ ... instead.",
                code="direct-url",
            )
        tags = tags_of(file)
        why = self.fit.misfit(tags).words if self.fit.rank(tags) is None else self._python_misfit(stated)
        if why is not None:
            raise Unsatisfiable(
                f"{ask.origin}: {file} does not fit {self.fit.target}: it {why}",
                hint="Name another wheel, or give it a marker for the platform it is for.",
                code="wheel-misfit",
            )

    def _python_misfit(self, stated: WheelMetadata) -> str | None:
        try:
            wanted = SpecifierSet(stated.requires_python or "")
        except InvalidSpecifier:  # as on an index: what cannot be read excludes nothing
            return None
        fits = wanted.contains(self.fit.target.version, prereleases=True)
        return None if fits else f"wants Python {stated.requires_python}"


def without_urls(ready: Ready, direct: Collection[str]) -> bytes:
    """METADATA as resolvers may see it: places named by the wheel give way to what the spec says of them.

    Raises Unsatisfiable "url-dependency" where the spec says nothing of one.
    """

    def plain(match: re.Match[bytes]) -> bytes:
        try:
            requirement = Requirement(match[1].decode("utf-8", "replace"))
        except InvalidRequirement:
            return match[0]
        if not requirement.url:
            return match[0]
        if canonicalize_name(requirement.name) not in direct:
            line = f"{requirement.name} @ {requirement.url}"
            raise Unsatisfiable(
                f"{ready.wheel.name} {ready.wheel.version} requires {mask(line)}, which the spec does not name",
                hint=f'Add to [python] requirements: "{mask(line)}"',
                code="url-dependency",
            )
        requirement.url = None
        return f"Requires-Dist: {requirement}".encode()

    head, blank, body = ready.metadata.partition(b"\n\n")
    return _REQUIRES.sub(plain, head) + blank + body


def _named(ready: Ready, url: str) -> Ready:
    """A built wheel with the requirement's URL, by which the next lock knows that it is still asked for."""
    return replace(ready, wheel=replace(ready.wheel, direct_url=url))


def _stated_hash(ask: Ask, fragment: str) -> Digest | None:
    text = dict(parse_qsl(fragment)).get("sha256")
    try:
        return Digest.parse(text) if text else None
    except ValueError as exc:
        raise FaultyInput(
            f"{ask.origin}: {exc}", hint="Write #sha256= and 64 hex digits, or leave it out.", code="direct-url"
        ) from exc
