"""A group whose commands are imported when they are used, so that help and completion load none of them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from rocketpy.cli.command import Group

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["Entry", "LazyGroup"]


class Entry(NamedTuple):
    """Where a command is, and what the help of its group says about it."""

    place: str
    """The module and the name in it, as in ``rocketpy.cli.topic:topic``."""
    help: str
    """One line."""
    section: str
    """The heading under which it is listed."""

    def load(self) -> click.Command:
        """Import it."""
        module, _, name = self.place.partition(":")
        return cast("click.Command", getattr(import_module(module), name))


class LazyGroup(Group):
    """A group of commands that are imported when they are used.

    Args:
        entries: The commands by name, in the order of the help.
    """

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, context: click.Context) -> list[str]:
        """The names."""
        return list(self.entries)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import a command; None if there is none of that name."""
        entry = self.entries.get(name)
        return None if entry is None else entry.load()

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; if there is none, suggest similar names."""
        name = args[0]
        if not name.startswith("-") and not context.resilient_parsing and self.get_command(context, name) is None:
            from difflib import get_close_matches

            near = get_close_matches(name, self.entries)
            context.fail(f"No such command {name!r:.100}.{' Did you mean ' + ' or '.join(near) + '?' if near else ''}")
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands under their headings, all in one column."""
        width = max(map(len, self.entries))
        for section in dict.fromkeys(entry.section for entry in self.entries.values()):
            rows = [(name.ljust(width), entry.help) for name, entry in self.entries.items() if entry.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a name, or an option of the group."""
        from click.shell_completion import CompletionItem

        names = [
            CompletionItem(name, help=entry.help) for name, entry in self.entries.items() if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, context, incomplete)
