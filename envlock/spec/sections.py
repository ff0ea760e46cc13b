"""The small tables of envlock.toml: `[env]`, `[base]`, `[target]`, `[[index]]`, `[access]` and `[[source]]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envlock.platforms import Platform
from envlock.spec.faults import Faults, Wrong
from envlock.spec.gpus import by_number, capability
from envlock.spec.model import OWN_INDEXES, AccessSpec, BaseSpec, IndexSpec, SourceSpec, TargetSpec
from envlock.spec.table import Node, Table
from envlock.spec.urls import url_or_folder, web_url
from envlock.spec.values import boolean, choice, distinct, list_of, matching, project_name, shown, text

__all__ = [
    "EnvHead",
    "read_access",
    "read_base",
    "read_env",
    "read_index",
    "read_source",
    "read_target",
    "usable_name",
]

# The Debian suites that a base can be made of, and the Python of each.
_SUITES: Mapping[str, str] = {"bookworm": "3.11", "trixie": "3.13"}

_SUITE = choice(*_SUITES, meant={"12": "bookworm", "oldstable": "bookworm", "13": "trixie", "stable": "trixie"})
_NAME = matching(
    r"(?=.{1,100}$)[a-z0-9]+(?:[._-][a-z0-9]+)*",
    "a usable name",
    "use at most 100 small letters and digits, with single . _ or - between them",
)
_INDEX_NAME = matching(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", "an index name", "use letters, digits, . _ and -"
)
_DEBIAN_NAME = matching(
    r"[a-z0-9][a-z0-9+.-]+",
    "a Debian package's name",
    "write the name alone: the lock finds version and architecture",
)
_DRIVER = re.compile(r"(?:>= ?)?(\d{3}(?:\.\d+){0,2})", re.ASCII)
_CUDA = re.compile(r"auto|cpu|[1-9]\d\.\d", re.ASCII)
_PLATFORM_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("amd64", "x86_64", "x86-64", "linux/x86_64", "linux"), Platform.AMD64),
    **dict.fromkeys(("arm64", "aarch64", "linux/aarch64", "linux/arm64/v8"), Platform.ARM64),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvHead:
    """`[env]`."""

    name: str
    python: str
    platforms: tuple[Platform, ...]


def usable_name(word: str) -> str:
    """The word, if an environment can be called that; else raise Wrong."""
    return _NAME(Node(word, ("env", "name"), Faults("", {})))


def read_env(table: Table, suite: str, conda: str | None = None) -> EnvHead:
    """Read `[env]`; the suite tells the Python that there can be, or `conda` the one that comes from there."""
    python = table.take("python", _python_version, conda or _SUITES[suite])
    if conda is not None and python != conda and table.faults.sound((*table.key, "python")):
        table.faults.add((*table.key, "python"), f"[conda] asks for python {conda}; write the same here and there")
    if conda is None and python != _SUITES[suite] and table.faults.sound((*table.key, "python"), ("base", "debian")):
        table.faults.add((*table.key, "python"), _other_suite(python, suite))
    platforms = table.take("platforms", _platforms, None)
    return EnvHead(
        name=table.require("name", _NAME, "unnamed", 'name = "qlora"'),
        python=python,
        platforms=tuple(sorted(map(Platform, platforms or (Platform.AMD64,)))),
    )


def _platforms(node: Node) -> tuple[str, ...]:
    if node.value == []:
        raise Wrong("empty", 'write ["linux/amd64"] or leave the key out')
    return distinct(choice(*Platform, meant=_PLATFORM_WORDS))(node)


def _python_version(node: Node) -> str:
    version = text(node)
    if not re.fullmatch(r"\d\.\d+", version):
        found = re.search(r"3\.\d+", version)
        instead = f'write "{found[0] if found else "3.13"}"'
        raise Wrong(f"{shown(version)} is not an X.Y version", f"{instead}: the base's suite decides on the rest")
    return version


def _other_suite(python: str, suite: str) -> str:
    having = [name for name, version in _SUITES.items() if version == python]
    what = f"{suite} has no Python {python}"
    if having:
        return f'{what}; write debian = "{having[0]}" in [base], or "{_SUITES[suite]}" here'
    others = ", ".join(f'"{version}" ({name})' for name, version in _SUITES.items())
    return f"{what}, and no known suite has; write one of {others}"


def read_base(table: Table) -> BaseSpec:
    """Read `[base]`."""
    return BaseSpec(
        debian=table.take("debian", _SUITE, BaseSpec().debian),
        packages=tuple(sorted(table.take("packages", distinct(_DEBIAN_NAME), ()))),
        mirror=table.take("mirror", web_url, None),
    )


def read_target(table: Table) -> TargetSpec:
    """Read `[target]`."""
    target = TargetSpec(
        driver=table.take("driver", _driver, None),
        gpus=tuple(sorted(set(table.take("gpus", list_of(capability), ())), key=by_number)),
        cuda=table.take("cuda", _cuda, TargetSpec().cuda),
    )
    for key in ("driver", "gpus"):
        if target.cuda == "cpu" and table.has(key) and table.faults.sound((*table.key, key)):
            table.faults.add((*table.key, key), 'cuda = "cpu" uses no GPU; delete this line, or write cuda = "auto"')
    return target


def _driver(node: Node) -> str:
    if isinstance(node.value, int) and not isinstance(node.value, bool):
        raise Wrong(f"{node.value} is not a string", f'write ">={node.value}"')
    written = text(node)
    found = _DRIVER.fullmatch(written)
    if not found:
        number = re.search(r"[0-9]{3}(?:\.[0-9]+)*", written)
        example = f">={number[0] if number else 535}"
        raise Wrong(f"{shown(written)} is not the lowest driver", f'write "{example}", as nvidia-smi shows it')
    return found[1]


def _cuda(node: Node) -> str:
    written = text(node)
    if not _CUDA.fullmatch(written):
        short = re.fullmatch(r"(?:cu|cuda)?[ -]?(\d\d)\.?(\d?)(?:\.\d+)?", written, re.IGNORECASE)
        likely = f'"{short[1]}.{short[2] or "0"}"' if short else '"auto", "cpu" or a version such as "12.8"'
        raise Wrong(f"{shown(written)} is not a CUDA runtime", f"write {likely}")
    return written


def read_index(table: Table, folder: Path) -> IndexSpec:
    """Read one `[[index]]`; a folder of wheels is relative to `folder`."""
    return IndexSpec(
        name=table.require("name", _index_name, "", 'name = "torch-cu128"'),
        url=table.require("url", url_or_folder(folder, "the index"), "", 'url = "https://..."'),
        packages=frozenset(table.take("packages", distinct(project_name), ())),
    )


def _index_name(node: Node) -> str:
    name = _INDEX_NAME(node)
    if name in OWN_INDEXES:
        raise Wrong(f"{shown(name)} is a name that locks use themselves", 'write another, such as "torch-cu128"')
    return name


def read_access(table: Table) -> AccessSpec:
    """Read `[access]`."""
    return AccessSpec(
        ssh=table.take("ssh", boolean, default=False), jupyter=table.take("jupyter", boolean, default=False)
    )


def read_source(table: Table) -> SourceSpec:
    """Read one `[[source]]`."""
    source = SourceSpec(
        name=table.require("name", text, "", 'name = "Qwen/Qwen3-8B"'),
        kind=table.require(
            "kind", choice("model", "dataset", meant={"data": "dataset", "data set": "dataset"}), "", 'kind = "model"'
        ),
        licence=table.take("licence", text, None),
        confirmed=table.take("confirmed", boolean, default=False),
        url=table.take("url", web_url, None),
    )
    if source.confirmed and source.licence is None and table.faults.sound((*table.key, "licence")):
        what = "no licence is named that was confirmed; write licence = ... beside it"
        table.faults.add((*table.key, "confirmed"), what)
    return source
