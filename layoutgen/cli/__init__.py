"""The command line: one verb a stage.

Commands import what they need when they run, so that `layoutgen --help` starts at once.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from layoutgen.cli.atoms import atoms
from layoutgen.cli.compile import compile_command
from layoutgen.cli.derive import derive
from layoutgen.cli.emit import emit
from layoutgen.cli.explain import explain
from layoutgen.cli.inspect import inspect
from layoutgen.cli.leaving import leave
from layoutgen.cli.probe import probe
from layoutgen.cli.prove import prove
from layoutgen.cli.query import what, where
from layoutgen.cli.run import run as run_command
from layoutgen.cli.tune import tune
from layoutgen.errors import CompilationError, LayoutgenError, RefutedError


class Group(click.Group):
    """A group that turns errors raised on purpose into one line and an exit status."""

    def main(self, args: Any = None, prog_name: Any = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run the command line and exit; a usage error costs one line as well."""
        try:
            status = super().main(args, prog_name, **(extra | {"standalone_mode": False}))
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            status = 2
        except click.ClickException as error:
            message = " ".join(error.format_message().split())
            command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "layoutgen"
            click.echo(f"layoutgen: {message} ({command} --help says more)", err=True)
            status = 2
        except click.Abort:
            click.echo("layoutgen: interrupted", err=True)
            status = 130
        sys.exit(status if isinstance(status, int) else 0)

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except LayoutgenError as error:
            click.echo(f"layoutgen: {error}", err=True)
            context.exit(1 if isinstance(error, RefutedError | CompilationError) else 2)
        except (MemoryError, RecursionError) as error:
            click.echo(f"layoutgen: the request is too large for this machine ({type(error).__name__})", err=True)
            context.exit(2)
        except BrokenPipeError:
            # The reader of our output has gone, as `head` does; leave nothing for the interpreter to flush.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            context.exit(1)
        except OSError as error:
            # What the library reads and writes it reports itself: this is the output, on a full disk for example.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            click.echo(f"layoutgen: output: {(error.strerror or str(error)).lower()}", err=True)
            context.exit(1)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="layoutgen")
def main() -> None:
    """From the fragment mapping of a tensor-core instruction to proved layouts and kernels.

    Exit status: 0 done, 1 refuted or failed, 2 asked wrongly. What explain says of a conversion is an answer, so 0.
    """


def run() -> None:
    """The entry point of the command line."""
    try:
        main()
    except SystemExit as stop:
        leave(stop.code)


for command in (atoms, derive, where, what, prove, explain, emit, compile_command, run_command, inspect, tune, probe):
    main.add_command(command)
