"""`envlock`: the program. Errors become a message, a hint and an exit status here, and nowhere else."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback

import click

from envlock import __version__
from envlock.cli.build import build
from envlock.cli.common import Invocation, Terminal, as_json, common_options
from envlock.cli.init import init
from envlock.cli.lock import lock
from envlock.errors import EnvlockError, MachineLacks

__all__ = ["main"]

_INTERRUPTED = 130  # as a shell reports SIGINT
_OWN_FAULT = 70  # sysexits' EX_SOFTWARE: not one of the statuses that tell about the user's input or machine


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="envlock")
@common_options
def envlock() -> None:
    """Lock a CUDA/torch environment, and build it as an image of the system disk alone.

    Exit status: 0 done; 1 checked and found different; 2 usage or a faulty file; 3 cannot be resolved, or the host
    contract cannot be met; 4 the machine lacks something.
    """


envlock.add_command(init)
envlock.add_command(lock)
envlock.add_command(build)


def main() -> None:
    """Run the command line and leave with its exit status."""
    invocation = Invocation()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a job that is cancelled tidies up as after Ctrl-C
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # neither closed nor a test's
            stream.reconfigure(errors="backslashreplace")  # file names may hold what the terminal cannot show
    try:
        status = _run(sys.argv[1:], invocation)
        if sys.stdout is not None:
            sys.stdout.flush()  # what a full disk refuses is refused here, and not when the interpreter ends
    except BrokenPipeError:
        _forget_stdout()
        status = 0
    except OSError as exc:  # stdout itself takes nothing
        _forget_stdout()
        click.echo(f"{click.style('error', fg='red')}: {_refused(exc).message}", err=True)
        status = MachineLacks.status
    except Exception:  # noqa: BLE001 (the outermost frame: a fault of ours is told as one)
        click.echo(traceback.format_exc(), err=True, nl=False)
        click.echo("error: this is a fault in envlock itself; please report it with the lines above", err=True)
        status = _OWN_FAULT
    sys.exit(status)


def _run(arguments: list[str], invocation: Invocation) -> int:
    try:
        envlock.main(arguments, standalone_mode=False, obj=invocation)
    except EnvlockError as error:
        _tell(error, invocation.terminal)
        return error.status
    except BrokenPipeError:
        raise
    except OSError as exc:
        if invocation.terminal.verbose:
            click.echo(traceback.format_exc(), err=True, nl=False)
        _tell(_refused(exc), invocation.terminal)
        return MachineLacks.status
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; run it again to go on where it was", err=True)
        return _INTERRUPTED
    return 0


def _refused(exc: OSError) -> MachineLacks:
    """What the operating system refused, where nobody nearer to it could say more."""
    names = " -> ".join(str(name) for name in (exc.filename, exc.filename2) if name is not None)
    return MachineLacks(
        f"{names or 'the system'}: {exc.strerror or exc}",
        hint="Look after rights, room and length of the name there; -v shows what was being done.",
        code="system-refused",
    )


def _forget_stdout() -> None:
    """Have nothing left to write to a stdout that takes nothing, or the interpreter complains at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(error: EnvlockError, told: Terminal) -> None:
    if told.as_json:
        values = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
        click.echo(as_json(values))
    click.echo(f"{click.style('error', fg='red')}: {error.message}", err=True)
    if error.hint:
        click.echo(f"{click.style('hint', fg='cyan')}: {error.hint}", err=True)
    cause = error.__cause__
    while told.verbose and cause is not None:
        click.echo(f"caused by: {type(cause).__name__}: {cause}", err=True)
        cause = cause.__cause__
