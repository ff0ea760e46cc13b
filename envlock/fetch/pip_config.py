"""pip's configuration, read as pip reads it: its variables, and the files of all its places."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from envlock.errors import FaultyInput, MachineLacks
from envlock.fetch.config_layers import Layer, as_place, truth

__all__ = ["ask_pip_for_its_index", "pip_file_options", "pip_files", "pip_layers"]

_SECTIONS = ("global", "download", "install")  # the last one to say something wins, as for `pip install`
_ASK = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
_HELP_DEFAULT = re.compile(r"--index-url.*?\(default\s+(\S+?)\)", re.DOTALL)


def pip_layers(environ: Mapping[str, str], home: Path, *, root: Path, prefix: Path, cwd: Path) -> tuple[Layer, Layer]:
    """What pip's PIP_* variables say, and what its files say together."""
    variables = {
        _option(name.removeprefix("PIP_")): value
        for name, value in environ.items()
        if name.startswith("PIP_") and value.strip()
    }
    options, origin = pip_file_options(pip_files(environ, home, root=root, prefix=prefix))
    return (
        _layer(variables, "pip's variables (PIP_*)", home, cwd),
        _layer(options, origin, home, cwd),
    )


def pip_files(environ: Mapping[str, str], home: Path, *, root: Path, prefix: Path) -> tuple[Path, ...]:
    """The configuration files of pip, lowest first, whether they are there or not.

    The site file is that of `prefix` and of the environments that conda or venv have activated. A PIP_CONFIG_FILE
    that exists takes the user files' place; the null device switches all files off.
    """
    chosen = environ.get("PIP_CONFIG_FILE", "")
    if chosen == os.devnull:
        return ()
    config_dirs = environ.get("XDG_CONFIG_DIRS") or str(root / "etc" / "xdg")
    files = [Path(folder, "pip", "pip.conf") for folder in config_dirs.split(os.pathsep) if folder]
    files.append(root / "etc" / "pip.conf")
    if not (chosen and Path(chosen).exists()):
        config_home = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
        files += [home / ".pip" / "pip.conf", config_home / "pip" / "pip.conf"]
    prefixes = [str(prefix), environ.get("CONDA_PREFIX", ""), environ.get("VIRTUAL_ENV", "")]
    files += [Path(folder, "pip.conf") for folder in dict.fromkeys(prefixes) if folder]
    if chosen:
        files.append(Path(chosen))
    return tuple(files)


def pip_file_options(files: tuple[Path, ...]) -> tuple[dict[str, str], str]:
    """The options that hold for `pip install` by these files (lowest first), and where the index comes from."""
    sections: dict[str, dict[str, str]] = {name: {} for name in _SECTIONS}
    origins: dict[str, str] = {}
    for file in files:
        for section, option, value in _read(file):
            if section in sections and value.strip():
                sections[section][option] = value
                origins[f"{section}.{option}"] = str(file)
    options: dict[str, str] = {}
    origin = "pip's configuration files"
    for section in _SECTIONS:
        options |= sections[section]
        origin = origins.get(f"{section}.index-url", origin)
    return options, origin


def ask_pip_for_its_index(python: str) -> str:
    """The index that the pip installed beside `python` uses when nothing is configured.

    Asked of pip itself, so that no host name stands here; raises MachineLacks "no-index".
    """
    quiet = {"PIP_CONFIG_FILE": os.devnull, "COLUMNS": "1000", "PATH": os.defpath}
    asked = _run([python, "-I", "-c", _ASK], quiet).strip()
    if "://" in asked:
        return asked
    # pip moved its own house about: its help text still says so.
    match = _HELP_DEFAULT.search(_run([python, "-I", "-m", "pip", "install", "--help"], quiet))
    if match is None:
        raise MachineLacks(
            "no package index is configured, and pip does not tell its default one",
            hint="Set PIP_INDEX_URL, or give --index-url.",
            code="no-index",
        )
    return match[1]


def _run(command: list[str], environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _layer(options: Mapping[str, str], origin: str, home: Path, cwd: Path) -> Layer:
    def places(name: str) -> tuple[str, ...] | None:
        return tuple(as_place(text, cwd, home) for text in options[name].split()) if name in options else None

    def path(name: str) -> Path | None:
        return Path(as_place(options[name].strip(), cwd, home)) if name in options else None

    url = options.get("index-url", options.get("pypi-url"))
    return Layer(
        origin=origin,
        index_url=as_place(url.strip(), cwd, home) if url else None,
        extra=places("extra-index-url"),
        find_links=places("find-links"),
        no_index=truth(options.get("no-index")),
        cert=path("cert"),
        client_cert=path("client-cert"),
        proxy=options.get("proxy"),
        trusted_hosts=tuple(options["trusted-host"].split()) if "trusted-host" in options else None,
        timeout=_seconds(options.get("timeout", options.get("default-timeout"))),
    )


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None  # pip itself will complain of it


def _option(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


class _Parser(configparser.RawConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return _option(optionstr)


def _read(file: Path) -> Iterator[tuple[str, str, str]]:
    parser = _Parser()
    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # as pip does
    except (OSError, UnicodeDecodeError) as exc:
        raise _faulty(file, str(exc)) from exc
    try:
        parser.read_string(text, source=str(file))
    except configparser.Error as exc:
        raise _faulty(file, exc.message) from exc
    for section in parser.sections():
        for option, value in parser.items(section):
            yield section, option, value


def _faulty(file: Path, why: str) -> FaultyInput:
    return FaultyInput(
        f"pip's configuration file {file} cannot be read: {' '.join(why.split())}",
        hint="Correct it (pip trips over it too), or set PIP_CONFIG_FILE to another one.",
        code="pip-config-faulty",
    )
