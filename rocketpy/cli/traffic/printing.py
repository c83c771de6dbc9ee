"""Prints messages as they come: the bytes of each batch go to standard output in one piece."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from rocketpy.cli.text import escaped

if TYPE_CHECKING:
    from rocketpy.cli.traffic.formats import Format
    from rocketpy.message import MessageExt

__all__ = ["note", "printer"]


def printer(form: Format) -> Callable[[Sequence[MessageExt]], None]:
    """A function that prints messages in a format. It raises BrokenPipeError if the reader has gone."""
    sys.stdout.flush()
    raw = sys.stdout.buffer

    def emit(messages: Sequence[MessageExt]) -> None:
        raw.write(b"".join(map(form, messages)))
        raw.flush()

    return emit


def note(text: str) -> None:
    """Print something that is not a message, on standard error."""
    click.echo(escaped(f"rocketpy: {text}"), err=True)
