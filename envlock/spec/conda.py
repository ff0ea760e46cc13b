"""`[conda]`: channels, what is wanted from them, and how it is locked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from envlock.spec.disk import is_file, place_on_disk
from envlock.spec.environment_yml import CondaEnvironment, PipLine, read_environment
from envlock.spec.faults import Wrong
from envlock.spec.model import CONDA_SOLVERS, CondaSpec, Requirement
from envlock.spec.secrets import refuse_credentials
from envlock.spec.table import Node, Parser, Table
from envlock.spec.urls import split_url, url_or_folder
from envlock.spec.values import choice, distinct, list_of, mapping_of, matching, project_name, shown, text

__all__ = ["CondaTable", "match_spec", "names_python", "read_conda", "spec_name"]

_SOLVER = choice(*CONDA_SOLVERS, meant={"rattler": "py-rattler", "conda": "conda-lock", "mamba": "conda-lock"})
_WINS = choice("conda", "wheel", meant={"pip": "wheel", "pypi": "wheel", "python": "wheel"})
_CHANNEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_TOKEN = re.compile(r"/t/[^/]+(?:/|$)")
_PACKAGE = matching(r"[a-z0-9_][a-z0-9_.-]*", "a conda package's name", "write the name alone, in small letters")


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaTable:
    """`[conda]`, and the pip section of its file, which joins the requirements. `file` is that file's name."""

    spec: CondaSpec
    pip: tuple[PipLine, ...] = ()
    file: str = ""

    @property
    def python(self) -> str | None:
        """The X.Y of the interpreter that the dependencies name, where they name one."""
        found = (_minor(item.text) for item in self.spec.dependencies)
        return next((version for version in found if version), None)


def read_conda(table: Table, folder: Path) -> CondaTable:
    """Read `[conda]`; files and folders are relative to `folder`."""
    written = table.take("dependencies", list_of(_dependency), ())
    channels = table.take("channels", distinct(_channel(folder)), ())
    file = table.take("file", _file(folder, "environment.yml"), None)
    environment = CondaEnvironment() if file is None else read_environment(file, table.faults)
    spec = CondaSpec(
        channels=channels or environment.channels,
        dependencies=(*written, *environment.dependencies),
        mirrors=table.take("mirrors", mapping_of(text, distinct(url_or_folder(folder, "the mirror"))), {}),
        solver=table.take("solver", _SOLVER, CondaSpec().solver),
        lock=table.take("lock", _file(folder, "conda-lock.yml"), None),
        wins=table.take("wins", mapping_of(project_name, _WINS), {}),
        allow_scripts=frozenset(table.take("allow-scripts", distinct(_PACKAGE), ())),
    )
    _refuse_contradictions(table, spec)
    wins = {project_name(Node(name, table.key, table.faults)): side for name, side in spec.wins.items()}
    return CondaTable(spec=replace(spec, wins=wins), pip=environment.pip, file=file.name if file else "")


def _refuse_contradictions(table: Table, spec: CondaSpec) -> None:
    faults, key = table.faults, table.key
    if not any(map(table.has, ("dependencies", "file", "lock"))):
        faults.add(key, 'nothing is asked for; write `dependencies = ["ffmpeg"]`, or `file = "environment.yml"`')
    elif spec.lock is None and not spec.channels and faults.sound((*key, "channels"), (*key, "file")):
        faults.add((*key, "channels"), 'missing; write `channels = ["conda-forge"]` in [conda]')
    for name in spec.mirrors:
        if name not in spec.channels and faults.sound((*key, "channels")):
            faults.add((*key, "mirrors", name), "no channel is called that; write a name that stands in channels")


def _dependency(node: Node) -> Requirement:
    return Requirement(text=match_spec(text(node)), origin=f"{node.faults.file}: conda.dependencies[{node.key[-1]}]")


def match_spec(written: str) -> str:
    """The text, if conda's solvers understand it as a match spec; raise Wrong otherwise."""
    from rattler import MatchSpec  # noqa: PLC0415 (only where there is a conda side: it takes 0.2 s)
    from rattler.exceptions import InvalidMatchSpecError  # noqa: PLC0415 (as above)

    plain = " ".join(written.split())
    refuse_credentials(plain.partition("::")[0])
    try:
        parsed = MatchSpec(plain, strict=False)
    except InvalidMatchSpecError as exc:
        raise Wrong(
            f"{shown(written)} is not a match spec of conda ({exc})", 'write one such as "python 3.12.*"'
        ) from None
    if "[url=" in str(parsed):
        raise Wrong(f"{shown(written)} is a URL", "name the package, and its channel in channels")
    return plain


def _channel(folder: Path) -> Parser[str]:
    def parse(node: Node) -> str:
        written = text(node).rstrip("/")
        if "://" not in written and not written.startswith((".", "/", "~")):
            if not _CHANNEL.fullmatch(written):
                raise Wrong(
                    f"{shown(written)} is not a channel's name", 'write a name such as "conda-forge", or a URL'
                )
            return written
        refuse_credentials(written)
        if "://" in written and _TOKEN.search(split_url(written).path):
            raise Wrong(
                f"the URL of {split_url(written).hostname} holds a token, which would end up in the lock",
                "write it without /t/..., and put the token into .condarc or the environment",
            )
        place = url_or_folder(folder, "the channel")(Node(written, node.key, node.faults))
        return place.rstrip("/") if "://" in place else Path(place).as_uri()

    return parse


def _file(folder: Path, what: str) -> Parser[Path]:
    def parse(node: Node) -> Path:
        place = place_on_disk(text(node), folder)
        if not is_file(place):
            raise Wrong(f"there is no file {place}", f"write the place of the {what}, relative to envlock.toml")
        return place

    return parse


def _minor(spec: str) -> str | None:
    """3.12 of `python 3.12.*`, `python=3.12` or `conda-forge::python >=3.12,<3.13`."""
    found = re.fullmatch(r"(?:[^:]+::)?python\b(.*)", spec)
    version = re.search(r"3\.\d+", found[1]) if found else None
    return version[0] if version else None


def spec_name(spec: str) -> str:
    """The package that a match spec, known to be one, is of."""
    found = re.match(r"(?:\S+::)?([A-Za-z0-9_.-]+)", spec)
    return found[1].lower() if found else spec


def names_python(dependencies: Iterable[Requirement]) -> bool:
    """Whether one of these dependencies is the interpreter."""
    return any(spec_name(item.text) == "python" for item in dependencies)
