"""rocketpy COMMAND: the main command, which runs all others."""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import Any

import click

from rocketpy._version import __version__
from rocketpy.cli import termination
from rocketpy.cli.command import common_options
from rocketpy.cli.commands import COMMANDS
from rocketpy.cli.failing import UNABLE, errors_told, tell_failures
from rocketpy.cli.lazy import LazyGroup
from rocketpy.cli.session import Session

__all__ = ["main", "rocketpy"]

PROGRAM = "rocketpy"
_OBJECTS = 50_000
"""Objects between two collections: imports create many that stay, and collections would take a tenth of the start."""


class _Main(LazyGroup):
    """The main command, which handles the errors of all others."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read its options. Its help may be written into a pipe that closes."""
        with errors_told():
            context = super().make_context(*args, **kwargs)
        context.ensure_object(Session)
        return context

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """A command of ours, or one under its name in mqadmin."""
        found = super().get_command(context, name)
        if found is not None:
            return found
        from rocketpy.cli.mqadmin.names import find

        return find(name)

    def invoke(self, context: click.Context) -> Any:
        """Run a command."""
        with errors_told():
            found = super().invoke(context)
        session = context.ensure_object(Session)
        for error in session.failed:
            tell_failures(error)
        if session.failed:
            context.exit(UNABLE)
        return found


def _version(context: click.Context, option: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        click.echo(f"{PROGRAM} {__version__}")
        context.exit()


rocketpy = _Main(
    PROGRAM,
    entries=COMMANDS,
    help="Administer a RocketMQ cluster, and send and read messages.",
    params=[
        *common_options(),
        click.Option(
            ["--version"], is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version."
        ),
    ],
)
"""The command."""


def _prepare_output() -> None:
    """Escape characters of bodies that the encoding of standard output does not have."""
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def main() -> None:
    """Run `rocketpy`, and exit with its status."""
    gc.set_threshold(_OBJECTS)
    termination.watch()
    _prepare_output()
    rocketpy.main(prog_name=PROGRAM)


if __name__ == "__main__":
    main()
