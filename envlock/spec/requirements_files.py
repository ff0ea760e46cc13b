"""Requirements files in pip's syntax, and the same lines where they stand in envlock.toml."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from envlock.spec.disk import place_on_disk
from envlock.spec.faults import Faults, Wrong
from envlock.spec.model import Requirement
from envlock.spec.requirements import looks_like_path, read_requirement
from envlock.spec.table import Node
from envlock.spec.values import list_of, shown, text

__all__ = ["RequirementsReader", "logical_lines"]

_COMMENT = re.compile(r"(?:^|\s)#.*$", re.DOTALL)
_VARIABLE = re.compile(r"\$\{[A-Za-z0-9_]+\}")
_OPTION = re.compile(r"(--[a-z][a-z-]*|-[a-z])(?:\s*=\s*|\s+)?(.*)", re.DOTALL)
_HASH = re.compile(r"\s--hash[=\s]\s*\S+")
_LINE_OPTION = re.compile(r"\s(--[a-z][a-z-]*)")
_DEEPEST = 40
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),  # what Windows' shell makes of `pip freeze > requirements.txt`
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LONG = {"-r": "--requirement", "-c": "--constraint", "-i": "--index-url", "-f": "--find-links", "-e": "--editable"}
_INDEX = "give the index a name and a url under [[index]] in envlock.toml, or set it in pip's or uv's configuration"
_DELETE = "delete the option"
# pip's options that have no place here, and what to do instead.
_INSTEAD: Mapping[str, str] = {
    "--index-url": _INDEX,
    "--extra-index-url": f"{_INDEX}; with packages = [...], only those come from it",
    "--find-links": "name the folder or page under [[index]] in envlock.toml",
    "--no-index": "delete the option; the packages of an [[index]] come from it alone",
    "--trusted-host": "say in pip's or uv's own configuration whom to trust; envlock reads it",
    "--editable": "put your own code into the image with [[image.copy]], and name its requirements here",
    "--no-binary": "name packages that may be built from source in allow-sdist, under [python] in envlock.toml",
    "--only-binary": f"{_DELETE}: wheels alone are taken, but for what allow-sdist names",
    "--prefer-binary": f"{_DELETE}: wheels alone are taken, but for what allow-sdist names",
    "--pre": "allow a pre-release by naming one, as in torch>=2.9.0rc1",
    "--require-hashes": f"{_DELETE}: the lock holds a hash of everything",
    "--config-settings": "build a wheel of the package yourself and write the wheel's path",
    "--config-setting": "build a wheel of the package yourself and write the wheel's path",
    "--global-option": "build a wheel of the package yourself and write the wheel's path",
    "--use-feature": _DELETE,
    "--no-deps": f"{_DELETE}: a lock holds dependencies too",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spot:
    """Where a line stands, and who is told when it is wrong."""

    origin: str
    folder: Path
    constraint: bool
    fault: Callable[[Wrong], None]
    chain: tuple[Path, ...] = ()  # files that are being read, outermost first


class RequirementsReader:
    """Collects requirements and constraints from lists in envlock.toml and from the files they name."""

    def __init__(self, folder: Path, faults: Faults) -> None:
        self.requirements: list[Requirement] = []
        self.constraints: list[Requirement] = []
        self._folder = folder
        self._faults = faults
        self._seen: set[tuple[Path, bool]] = set()

    def read_list(self, *, constraint: bool) -> Callable[[Node], None]:
        """A parser of `python.requirements` or `python.constraints`."""

        def entry(node: Node) -> None:
            key = f"python.{'constraints' if constraint else 'requirements'}[{node.key[-1]}]"
            spot = _Spot(
                origin=f"{self._faults.file}: {key}",
                folder=self._folder,
                constraint=constraint,
                fault=lambda wrong: node.faults.add(node.key, wrong),
            )
            line = _COMMENT.sub("", text(node)).strip()
            # Only here is a path alone a file to read: pip takes one in a file for a package.
            if looks_like_path(line) and line.endswith((".txt", ".in")):
                self._read_file(line, spot)
            else:
                self._read_line(line, spot)

        def read(node: Node) -> None:
            list_of(entry)(node)

        return read

    def read_elsewhere(self, line: str, file: str, number: int) -> None:
        """A requirement that stands in a file of another kind."""
        spot = _Spot(
            origin=f"{file}:{number}",
            folder=self._folder,
            constraint=False,
            fault=lambda wrong: self._faults.add_elsewhere(file, number, wrong),
        )
        self._read_line(_COMMENT.sub("", line).strip(), spot)

    def _read_line(self, line: str, spot: _Spot) -> None:
        try:
            _refuse_variable(line)
            if line.startswith("-"):
                self._follow_option(line, spot)
            elif line:
                self._keep(line, spot)
        except Wrong as wrong:
            spot.fault(wrong)

    def _keep(self, line: str, spot: _Spot) -> None:
        line = _HASH.sub("", line)
        option = _LINE_OPTION.search(line)
        if option:
            raise _refusal(option[1])
        requirement = read_requirement(line, spot.folder)
        if spot.constraint and re.match(r"[^;@]*\[", requirement):
            raise Wrong(f"{shown(requirement)} is a constraint with extras", "write the name without [ ]")
        kept = self.constraints if spot.constraint else self.requirements
        kept.append(Requirement(text=requirement, origin=spot.origin))

    def _follow_option(self, line: str, spot: _Spot) -> None:
        found = _OPTION.fullmatch(line)
        option = _LONG.get(found[1], found[1]) if found else line
        if not found or option not in {"--requirement", "--constraint"}:
            raise _editable(found[2]) if found and option == "--editable" else _refusal(option)
        if not found[2]:
            raise Wrong(f"{found[1]} names no file", f"write {found[1]} FILE")
        if spot.constraint and option == "--requirement":
            raise Wrong("requirements in a list of constraints", f"write -c {found[2]}, or name it in requirements")
        self._read_file(found[2], replace(spot, constraint=option == "--constraint"))

    def _read_file(self, name: str, spot: _Spot) -> None:
        if "://" in name and not name.startswith("file:"):
            raise Wrong(
                f"{shown(name)} is not on this machine", "save the file beside envlock.toml and name it there"
            )
        path = place_on_disk(name, spot.folder)
        real = Path(os.path.realpath(path))  # unlike resolve(), it does not raise where links go in circles
        if real in spot.chain:
            names = " -> ".join(self._label(file) for file in (*spot.chain, path))
            raise Wrong(f"the file includes itself ({names})", "delete this line")
        if len(spot.chain) >= _DEEPEST:
            raise Wrong(f"files include files {_DEEPEST} deep", "write fewer, larger ones")
        if (real, spot.constraint) in self._seen:
            return
        self._seen.add((real, spot.constraint))
        label = self._label(path)
        for number, line in logical_lines(_read_text(path)):
            self._read_line(line, self._spot_in(path, label, number, spot))

    def _spot_in(self, path: Path, label: str, number: int, outer: _Spot) -> _Spot:
        return _Spot(
            origin=f"{label}:{number}",
            folder=path.parent,
            constraint=outer.constraint,
            fault=lambda wrong: self._faults.add_elsewhere(label, number, wrong),
            chain=(*outer.chain, Path(os.path.realpath(path))),
        )

    def _label(self, path: Path) -> str:
        return os.path.relpath(path, self._folder)


def logical_lines(written: str) -> Iterator[tuple[int, str]]:
    """Lines that say something and the numbers they begin at: comments are gone, continued lines joined."""
    parts: list[str] = []
    first = 0
    for number, line in enumerate([*written.splitlines(), ""], start=1):
        first = first if parts else number
        is_comment = line.lstrip().startswith("#")  # it ends a continuation, as in pip
        if line.endswith("\\") and not is_comment:
            parts.append(line.strip("\\"))  # all of them, as pip does
            continue
        joined = "".join([*parts, "" if is_comment else line])
        parts = []
        said = _COMMENT.sub("", joined).strip()
        if said:
            yield first, said


def _refuse_variable(line: str) -> None:
    variable = _VARIABLE.search(line)
    if variable:
        raise Wrong(
            f"{variable[0]} is a variable, and the same file must mean the same everywhere",
            "write its value; credentials belong into ~/.netrc or pip's or uv's configuration",
        )


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Wrong(f"{path}: {error.strerror}", "write the path relative to the file that names it") from None
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors="replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Wrong(f"{path} is not text in UTF-8", "save it as UTF-8") from None


def _editable(place: str) -> Wrong:
    if place.startswith("git+"):
        try:
            read_requirement(place, Path("/"))
        except Wrong as wrong:  # it tells how a repository is named
            return wrong
    return _refusal("--editable")


def _refusal(option: str) -> Wrong:
    return Wrong(f"pip's option {option.partition(' ')[0]} has no place here", _INSTEAD.get(option, _DELETE))
