"""One requirement: PEP 508 text, a direct URL or a local wheel, as people and tools write them."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from envlock.spec.disk import is_file, is_folder, place_on_disk
from envlock.spec.faults import Wrong
from envlock.spec.secrets import refuse_credentials
from envlock.spec.urls import split_url
from envlock.spec.values import shown

__all__ = ["local_wheel", "looks_like_path", "read_requirement"]

_NAMED_URL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\s*(?:\[[^\]]*\])?\s*@")
_PATH_OR_URL = re.compile(r"(?P<place>[^;\[]+)(?P<extras>\[[^\]]*\])?\s*(?:;\s*(?P<marker>.+))?")
_ONE_EQUALS = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*=\s*([0-9][^=\s]*)(?:=\S*)?")
_NO_OPERATOR = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s+v?(\d\S*)")
_SSH_SHORT = re.compile(r"(?:(?P<user>[\w.-]+)@)?(?P<host>[\w.-]+):(?P<path>(?!//)[\w./~-]+)")
_EGG = re.compile(r"[#&]egg=([A-Za-z0-9][A-Za-z0-9._-]*)&?")
_DIRECT_SCHEMES = frozenset({"https", "http", "git+https", "git+http", "git+ssh", "git+file"})
_SOURCE_SUFFIXES = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".zip")
_CONDA_PLACES = re.compile(r"feedstock|/croot/|conda|/ci_|/80754af9/|/opt/concourse/|/perseverance-python")
_NO_WHEELS = {
    "python": "the interpreter comes from the base; write python = ... in [env]",
    "pytorch": 'the package is called torch here; write "torch"',
    "pytorch-cuda": "CUDA comes with torch; delete it, and write cuda = ... in [target] to choose a version",
    "cudatoolkit": "CUDA comes with torch; delete it, and write cuda = ... in [target] to choose a version",
}


def read_requirement(written: str, folder: Path) -> str:
    """A requirement as canonical PEP 508 text; paths are relative to `folder`; raise Wrong on what is none.

    Local wheels come out as `name @ file:///...`, bare URLs of wheels as `name @ URL`.
    """
    if _NAMED_URL.match(written):
        requirement = _with_url(written, folder)
    elif "://" in written or written.startswith("file:"):
        requirement = _bare_url(written, folder)
    elif looks_like_path(written):
        requirement = _local(written, folder)
    else:
        requirement = _plain(written)
    return str(requirement)


def looks_like_path(written: str) -> bool:
    """Whether a line is meant as a file or folder, not as a package's name."""
    place = _place(written)
    suffixes = (".whl", ".txt", ".in", ".toml", ".yml", ".yaml", ".lock", *_SOURCE_SUFFIXES)
    return place in {".", ".."} or place.startswith(("./", "../", "~")) or "/" in place or place.endswith(suffixes)


def local_wheel(requirement: Requirement) -> Path | None:
    """The file of a local wheel's requirement; None for any other."""
    if requirement.url is None or not requirement.url.startswith("file:"):
        return None
    return Path(unquote(split_url(requirement.url).path))


def _place(written: str) -> str:
    return re.split(r"[;\[ ]", written, maxsplit=1)[0]


def _plain(written: str) -> Requirement:
    try:
        requirement = Requirement(written)
    except InvalidRequirement as error:
        raise _not_a_requirement(written, error) from None
    instead = _NO_WHEELS.get(canonicalize_name(requirement.name))
    if instead:
        what, _, write = instead.partition("; ")
        raise Wrong(f"{requirement.name}: {what}", write)
    return requirement


def _not_a_requirement(written: str, error: InvalidRequirement) -> Wrong:
    what = f"{shown(written)} is not a requirement"
    pinned = _ONE_EQUALS.fullmatch(written)
    if pinned:
        what += ", but conda's way to write one" if written.count("=") > 1 else ": one = is conda's"
    pinned = pinned or _NO_OPERATOR.fullmatch(written)
    if pinned:
        return Wrong(what, f'write "{pinned[1]}=={pinned[2]}"')
    reason = str(error).splitlines()[0]
    return Wrong(f"{what} ({reason})", 'write name, extras, versions and marker, as in "torch>=2.6,<3"')


def _with_url(written: str, folder: Path) -> Requirement:
    name, _, url = (part.strip() for part in written.partition("@"))
    refuse_credentials(url)
    short = None if url.startswith("file:") else _SSH_SHORT.fullmatch(url)
    if short:  # `git@host:path` alone reads like a package named git
        name, user = (name, short["user"]) if short["user"] else ("NAME", name)
        raise Wrong(
            "an address in ssh's short form", f"write {name} @ git+ssh://{user}@{short['host']}/{short['path']}"
        )
    if not split_url(url).scheme:
        return _local(url, folder, name=name)
    try:
        requirement = Requirement(written)
    except InvalidRequirement as error:
        raise _not_a_requirement(written, error) from None
    if url.startswith("file:"):
        return _local_by_url(requirement, folder)
    _check_direct(requirement.name, str(requirement.url))
    return requirement


def _check_direct(name: str, url: str) -> None:
    scheme = split_url(url).scheme
    if scheme not in _DIRECT_SCHEMES:
        what = f"{scheme} is not fetched from"
        git = scheme in {"git", "ssh"} or url.removesuffix("/").endswith(".git")
        raise Wrong(what, f"write {name} @ {'git+https://...' if git else 'https://... or git+https://...'}")
    if scheme in {"https", "http"} and split_url(url).path.removesuffix("/").endswith(".git"):
        raise Wrong(f"{shown(url)} is a git repository", f"write {name} @ git+{url}")


def _local_by_url(requirement: Requirement, folder: Path) -> Requirement:
    path = place_on_disk(str(requirement.url), folder)
    if path.suffix == ".whl" and is_file(path):
        return _wheel(path, requirement)
    name = requirement.name
    if _CONDA_PLACES.search(str(path)) or not (is_file(path) or is_folder(path)):
        likely = "conda built it there" if _CONDA_PLACES.search(str(path)) else "pip freeze tells where it was built"
        raise Wrong(
            f"{name} @ file:///... is a place on the machine where the list was made ({likely}), not a package",
            f'write "{name}==VERSION": `pip list --format=freeze` in that environment gives all lines in this form',
        )
    raise Wrong(f"{path} is not a wheel", _instead_of_source(path))


def _bare_url(written: str, folder: Path) -> Requirement:
    found = _PATH_OR_URL.fullmatch(written)
    url = found["place"].strip() if found else written
    refuse_credentials(url)
    path = PurePosixPath(unquote(split_url(url).path))
    if found and path.suffix == ".whl" and split_url(url).scheme in {"https", "http"}:
        return _build(_wheel_name(path.name), url, found["extras"], found["marker"])
    if found and url.startswith("file:"):
        place = place_on_disk(url, folder)
        return _local(
            f"{place}{found['extras'] or ''}" + (f" ; {found['marker']}" if found["marker"] else ""), folder
        )
    egg = _EGG.search(url)
    name = egg[1] if egg else "NAME"
    clean = _EGG.sub("#" if egg and egg[0].endswith("&") else "", url)
    if split_url(clean).scheme in {"https", "http"} and split_url(clean).path.endswith(".git"):
        clean = f"git+{clean}"
    raise Wrong(f"{shown(url)} does not name its package", f'write "{name} @ {clean}"')


def _local(written: str, folder: Path, *, name: str | None = None) -> Requirement:
    found = _PATH_OR_URL.fullmatch(written)
    if not found:
        raise Wrong(
            f"{shown(written)} is not a path", "write the path of a wheel, such as ./wheels/x-1.0-py3-none-any.whl"
        )
    path = place_on_disk(found["place"].strip(), folder)
    if path.suffix != ".whl":
        raise Wrong(f"{shown(found['place'].strip())} is not a wheel", _instead_of_source(path))
    if name is None:
        name = _wheel_name(path.name) + (found["extras"] or "")
    return _wheel(path, _build(name, path.as_uri(), None, found["marker"]))


def _build(name: str, url: str, extras: str | None, marker: str | None) -> Requirement:
    written = f"{name}{extras or ''} @ {url}" + (f" ; {marker}" if marker else "")
    try:
        return Requirement(written)
    except InvalidRequirement as error:
        raise _not_a_requirement(written, error) from None


def _wheel(path: Path, requirement: Requirement) -> Requirement:
    if not is_file(path):
        raise Wrong(f"there is no file {path}", "write the place of the wheel, relative to the file that names it")
    name = _wheel_name(path.name)
    if name != canonicalize_name(requirement.name):
        raise Wrong(f"{path.name} is a wheel of {name}, not of {requirement.name}", f'write "{name} @ ..."')
    return _build(requirement.name, path.as_uri(), _extras(requirement), _marker(requirement))


def _extras(requirement: Requirement) -> str | None:
    return f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else None


def _marker(requirement: Requirement) -> str | None:
    return str(requirement.marker) if requirement.marker else None


def _wheel_name(file: str) -> str:
    try:
        return parse_wheel_filename(file)[0]
    except InvalidWheelFilename:
        raise Wrong(
            f"{shown(file)} is not a wheel's file name",
            "give it its own name back: NAME-VERSION-PYTHON-ABI-PLATFORM.whl",
        ) from None


def _instead_of_source(path: Path) -> str:
    if path.name.endswith(_SOURCE_SUFFIXES):
        return "build a wheel of it (pip wheel --no-deps) and write the wheel's path"
    if path.suffix in {".txt", ".in"}:
        return f"write -r {path.name}"
    if is_folder(path):
        return "put it into the image with [[image.copy]], or build a wheel (pip wheel --no-deps) and write its path"
    return "write the path of a wheel, or of a requirements file that ends in .txt"
