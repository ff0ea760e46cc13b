"""The environment itself, as `python -m venv` would have made it: its configuration, interpreter and activation."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator

from envlock.image.layers.entries import Directory, Entry, File, Symlink
from envlock.image.layers.wheel_scheme import Scheme

__all__ = ["venv_entries"]

_CONFIGURATION = """\
home = {home}
include-system-site-packages = false
version = {version}
executable = {executable}
command = {executable} -m venv --without-pip {prefix}
"""

_ACTIVATE = """\
# Read this with `. {shown}/bin/activate`, in sh, bash or zsh; `deactivate` undoes it.

deactivate () {{
    if [ "${{_ENVLOCK_OLD_PATH+set}}" ]; then
        PATH=$_ENVLOCK_OLD_PATH
        export PATH
    fi
    if [ "${{_ENVLOCK_OLD_PYTHONHOME+set}}" ]; then
        PYTHONHOME=$_ENVLOCK_OLD_PYTHONHOME
        export PYTHONHOME
    fi
    if [ "${{_ENVLOCK_OLD_PS1+set}}" ]; then
        PS1=$_ENVLOCK_OLD_PS1
    fi
    unset _ENVLOCK_OLD_PATH _ENVLOCK_OLD_PYTHONHOME _ENVLOCK_OLD_PS1 VIRTUAL_ENV VIRTUAL_ENV_PROMPT
    hash -r 2> /dev/null
    if [ "${{1-}}" != again ]; then
        unset -f deactivate
    fi
}}

deactivate again

VIRTUAL_ENV={prefix}
VIRTUAL_ENV_PROMPT={prompt}
_ENVLOCK_OLD_PATH=$PATH
PATH=$VIRTUAL_ENV/bin:$PATH
export VIRTUAL_ENV VIRTUAL_ENV_PROMPT PATH
if [ "${{PYTHONHOME+set}}" ]; then
    _ENVLOCK_OLD_PYTHONHOME=$PYTHONHOME
    unset PYTHONHOME
fi
if [ "${{PS1+set}}" ] && [ -z "${{VIRTUAL_ENV_DISABLE_PROMPT-}}" ]; then
    _ENVLOCK_OLD_PS1=$PS1
    PS1="($VIRTUAL_ENV_PROMPT) $PS1"
fi
hash -r 2> /dev/null
"""


def venv_entries(scheme: Scheme, python_full: str, system_python: str | None = None) -> Iterator[Entry]:
    """The environment without packages, sorted by path, from the root down.

    `python_full` is the base's full version ("3.13.5"), `system_python` its interpreter's absolute path
    (/usr/bin/pythonX.Y where it is not given).
    """
    executable = system_python or f"/usr/bin/python{scheme.python}"
    prefix = f"/{scheme.prefix}"
    name = f"python{scheme.python}"
    quoted = {"prefix": shlex.quote(prefix), "prompt": shlex.quote(posixpath.basename(prefix))}
    configuration = _CONFIGURATION.format(
        home=posixpath.dirname(executable), version=python_full, executable=executable, prefix=prefix
    )
    include = f"{scheme.prefix}/include"
    entries: list[Entry] = [
        *(Directory(path=path) for path in (*scheme.folders(), include, f"{include}/{name}")),
        File(path=f"{scheme.scripts}/activate", body=_ACTIVATE.format(shown=prefix, **quoted).encode()),
        Symlink(path=f"{scheme.scripts}/python", target=name),
        Symlink(path=f"{scheme.scripts}/python3", target=name),
        Symlink(path=f"{scheme.scripts}/{name}", target=executable),
        Symlink(path=f"{scheme.prefix}/lib64", target="lib"),
        File(path=f"{scheme.prefix}/pyvenv.cfg", body=configuration.encode()),
    ]
    return iter(sorted(entries, key=lambda entry: entry.path))
