"""Writes the page of the command `rocketpy` from the help of its commands, whenever the pages are built.

The page holds a marker; what stands here takes its place before the page is read. So the page cannot lag behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from rocketpy.cli.commands import COMMANDS
from rocketpy.cli.main import PROGRAM, rocketpy

PAGE = "reference/cli"
MARKER = "<!-- the help of all commands is put here -->"
WIDTH = 100


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", fill_page)
    return {"parallel_read_safe": True}


def fill_page(_app: Any, name: str, source: list[str]) -> None:
    if name == PAGE:
        source[0] = source[0].replace(MARKER, page())


def page() -> str:
    """Everything below the introduction."""
    root = click.Context(rocketpy, info_name=PROGRAM, terminal_width=WIDTH, max_content_width=WIDTH)
    parts = ["## rocketpy\n", block(root)]
    for name in COMMANDS:
        parts += [each for inner in below(root, name) for each in (f"## {inner.command_path}\n", block(inner))]
    return "\n".join(parts)


def below(parent: click.Context, name: str) -> Iterator[click.Context]:
    """The context of a command, and of all commands below it; those of mqadmin are in the help of their group."""
    command = parent.command.get_command(parent, name)  # type: ignore[attr-defined]
    context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH, max_content_width=WIDTH)
    yield context
    if isinstance(command, click.Group) and name != "mqadmin":
        for inner in command.list_commands(context):
            yield from below(context, inner)


def block(context: click.Context) -> str:
    """The help of a command as a literal block; the common options are told once, with the main command."""
    parts = context.command.get_help(context).split("\n\n")
    kept = [part for part in parts if not part.startswith("Common options:")]
    return "\n".join(["```text", "\n\n".join(kept), "```", ""])
