"""The user's own code: read and digested once, and written into a layer exactly as it was read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pathspec

from envlock.digest import Digest
from envlock.errors import FaultyInput
from envlock.image.directories import belongs_to_system, directory_entry
from envlock.image.layers.copied import CopiedFile, CopiedTree
from envlock.image.layers.entries import Entry, File, Symlink
from envlock.image.layers.git import git_state, tracked_paths
from envlock.image.layers.private import looks_private
from envlock.image.user import ImageUser
from envlock.spec.model import CopySpec

__all__ = ["copied_entries", "read_copies", "read_copy"]

# Never part of an environment: version control's own files and what Python makes by itself.
_NEVER = (".git", "__pycache__/", "*.py[co]", ".DS_Store", ".*.envlock-part", ".*.envlock-old")
_BLOCK = 1 << 20


def read_copies(
    copies: Iterable[CopySpec], folder: Path, environ: Mapping[str, str], *, outputs: Sequence[Path] = ()
) -> tuple[CopiedTree, ...]:
    """Read every `[[image.copy]]`; `folder` is the spec's, to which labels in the manifest are relative.

    `outputs` are places where this build writes: they are no part of what is built.
    """
    return tuple(read_copy(copy, folder, environ, outputs=outputs) for copy in copies)


def read_copy(
    copy: CopySpec, folder: Path, environ: Mapping[str, str], *, outputs: Sequence[Path] = ()
) -> CopiedTree:
    """Walk and digest one copy.

    Raise FaultyInput (code "copy-faulty", "copy-private") that names every file that cannot be taken: links that lead
    out of the tree, special files, keys and other secrets. A private file can still be copied by its own
    `[[image.copy]]`, which names it.
    """
    notes: tuple[str, ...] = ()
    if copy.source.is_file():
        files: tuple[CopiedFile, ...] = (_file(copy.source, ""),)
    else:
        patterns = pathspec.GitIgnoreSpec.from_lines((*copy.ignore, *_NEVER))
        walk = _Walk(root=copy.source, patterns=patterns, outputs=outputs)
        paths = tracked_paths(copy.source, environ) if copy.tracked else None
        files = tuple(sorted(walk.files(paths), key=lambda file: file.path.encode(errors="surrogateescape")))
        _refuse(copy, walk.faults, walk.private)
        notes = tuple(walk.notes)
    state = git_state(copy.source, environ, tracked=copy.tracked)
    return CopiedTree(
        root=copy.source,
        label=_label(copy.source, folder),
        to=copy.to,
        files=files,
        tracked=copy.tracked,
        commit=state.commit if state else None,
        dirty=state.dirty if state else False,
        notes=notes,
    )


def copied_entries(tree: CopiedTree, user: ImageUser) -> Iterator[Entry]:
    """The tree as entries, sorted by path, the user's except where the system's own files are.

    A file that changed since it was read is a fault (FaultyInput, code "copy-changed"), not another layer.
    """
    to = str(tree.to).strip("/")
    for file in tree.files:
        path = "/".join(filter(None, (to, file.path)))
        uid, gid = (0, 0) if belongs_to_system(path) else (user.uid, user.gid)
        if file.target is not None:
            yield Symlink(path=path, target=file.target, uid=uid, gid=gid)
        elif file.sha256 is not None:
            body = _CopiedBody(path=tree.root / file.path, size=file.size, sha256=file.sha256)
            yield File(path=path, body=body, mode=file.mode, uid=uid, gid=gid)
        elif path:
            yield directory_entry(path, user, own=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CopiedBody:
    """A file of the user's, read again when its layer is written."""

    path: Path
    size: int
    sha256: Digest

    def chunks(self) -> Iterator[bytes]:
        """The file's bytes, which must be those that were digested."""
        hasher, left = hashlib.sha256(), self.size
        with self.path.open("rb") as opened:
            while block := opened.read(min(_BLOCK, left + 1)):
                left -= len(block)
                if left < 0:
                    break
                hasher.update(block)
                yield block
        if left or hasher.hexdigest() != self.sha256.hex:
            raise FaultyInput(
                f"{self.path} changed while the image was built",
                hint="Build again once nothing writes to it; leave out what programs write with ignore.",
                code="copy-changed",
            )


class _Walk:
    """One pass over a folder; faults are collected, so that all are told at once."""

    def __init__(self, root: Path, patterns: pathspec.GitIgnoreSpec, outputs: Sequence[Path]) -> None:
        self.faults: list[str] = []
        self.notes: list[str] = []
        self.private: list[str] = []
        self._root = root
        self._real = root.resolve()
        self._patterns = patterns
        self._outputs = frozenset(path.resolve() for path in outputs)

    def files(self, tracked: Sequence[str] | None) -> Iterator[CopiedFile]:
        """All that is there, or of it what is tracked, with the folders that lead to it."""
        yield CopiedFile(path="", mode=0o755)
        yield from self._folder(self._root, "") if tracked is None else self._tracked(tracked)

    def _folder(self, folder: Path, path: str) -> Iterator[CopiedFile]:
        for child in sorted(folder.iterdir()):
            inner = f"{path}/{child.name}" if path else child.name
            if child.is_dir() and not child.is_symlink():
                if self._patterns.match_file(f"{inner}/"):
                    continue
                if reason := self._foreign(child):
                    self.notes.append(f"{inner} is {reason}, and was left out")
                    continue
                held = tuple(self._folder(child, inner)) if self._leads_to_output(child) else None
                if held is not None and all(file.is_directory for file in held):
                    continue  # it is there for the outputs only, and the first build did not see it
                yield CopiedFile(path=inner, mode=0o755)
                yield from self._folder(child, inner) if held is None else held
            elif not self._patterns.match_file(inner) and _real(child) not in self._outputs:
                yield from self._leaf(child, inner)

    def _leads_to_output(self, folder: Path) -> bool:
        real = folder.resolve()
        return any(output.is_relative_to(real) for output in self._outputs)

    def _foreign(self, folder: Path) -> str | None:
        """Why a folder is no part of the user's code, if it is none."""
        if (folder / "pyvenv.cfg").is_file():
            return "a virtual environment"
        if folder.resolve() in self._outputs:
            return "where this build writes"
        return "an image" if (folder / "oci-layout").is_file() else None

    def _tracked(self, paths: Sequence[str]) -> Iterator[CopiedFile]:
        folders: set[str] = set()
        for path in sorted(set(paths)):
            parents = [str(parent) for parent in PurePosixPath(path).parents if str(parent) != "."]
            if self._patterns.match_file(path) or any(self._patterns.match_file(f"{parent}/") for parent in parents):
                continue
            place = self._root / path
            if not place.is_symlink() and not place.exists():
                self.notes.append(f"{path} is tracked by git, and deleted here: it was left out")
                continue
            for parent in parents:
                if parent not in folders:
                    folders.add(parent)
                    yield CopiedFile(path=parent, mode=0o755)
            yield from self._leaf(place, path)

    def _leaf(self, place: Path, path: str) -> Iterator[CopiedFile]:
        if not _is_text(path):
            self.faults.append(f"{path.encode(errors='surrogateescape')!r} is not a UTF-8 name")
            return
        if place.name.startswith(".wh."):
            self.faults.append(f"{path} would delete files of other layers: names cannot begin with .wh.")
            return
        try:
            mode = place.lstat().st_mode
            if stat.S_ISLNK(mode):
                yield from self._link(place, path)
            elif stat.S_ISREG(mode):
                if looks_private(place):
                    self.private.append(path)
                    return
                yield _file(place, path)
            else:
                self.faults.append(f"{path} is neither file, folder nor link")
        except OSError as exc:
            self.faults.append(f"{path}: {exc.strerror}")

    def _link(self, place: Path, path: str) -> Iterator[CopiedFile]:
        target = str(place.readlink())
        real = _real(place)
        if target.startswith("/") or not real.is_relative_to(self._real) or _leaves(path, target):
            self.faults.append(f"{path} is a link to {target}, out of {self._root.name}")
            return
        yield CopiedFile(path=path, mode=0o777, target=target)


def _real(path: Path) -> Path:
    """As `resolve`, which may raise where links go in circles: such a link stands for itself."""
    return Path(os.path.realpath(path))


def _file(place: Path, path: str) -> CopiedFile:
    status = place.stat()
    mode = 0o755 if status.st_mode & 0o100 else 0o644
    return CopiedFile(path=path, mode=mode, size=status.st_size, sha256=Digest.of_file(place))


def _leaves(path: str, target: str) -> bool:
    """Whether a relative link leads out of the tree by its text alone, wherever the tree stands."""
    depth = path.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
        elif part not in {"", "."}:
            depth += 1
        if depth < 0:
            return True
    return False


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _label(source: Path, folder: Path) -> str:
    """What the manifest calls the source: its path from the spec where it lies beside or below it, else its name."""
    try:
        return source.relative_to(folder).as_posix()
    except ValueError:
        return source.name


def _refuse(copy: CopySpec, faults: list[str], private: list[str]) -> None:
    if faults:
        raise FaultyInput(
            f"{copy.source} cannot be copied into the image:\n" + "\n".join(f"  {fault}" for fault in faults),
            hint="Leave them out with ignore under [[image.copy]], or change them.",
            code="copy-faulty",
        )
    if private:
        raise FaultyInput(
            f"{copy.source} holds what looks private, and an image is no place for it:\n"
            + "\n".join(f"  {path}" for path in private),
            hint="Leave them out with ignore under [[image.copy]]; one that is meant to be there needs a copy of its "
            "own, whose source is that file.",
            code="copy-private",
        )
