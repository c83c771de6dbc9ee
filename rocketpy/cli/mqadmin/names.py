"""The names of mqadmin: the group `rocketpy mqadmin`, and how the main command finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from rocketpy.cli.command import Group
from rocketpy.cli.mqadmin.administration import ADMINISTRATION
from rocketpy.cli.mqadmin.alias import command_of, missing
from rocketpy.cli.mqadmin.messages import MESSAGES
from rocketpy.cli.mqadmin.missing import MISSING

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["ALIASES", "find", "mqadmin"]

ALIASES: Final = {**ADMINISTRATION, **MESSAGES}
"""The supported commands, by their names in mqadmin."""
_SPELLED: Final = {name.lower(): name for name in (*ALIASES, *MISSING)}


def find(name: str) -> click.Command | None:
    """A command of mqadmin, by its name in upper or lower case; None if there is none of that name."""
    known = _SPELLED.get(name.lower())
    if known is None:
        return None
    return command_of(known, ALIASES[known]) if known in ALIASES else missing(known, MISSING[known])


class _Names(Group):
    """The names of mqadmin."""

    def list_commands(self, context: click.Context) -> list[str]:
        """The supported ones."""
        return sorted(ALIASES)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """A command, supported or not."""
        return find(name)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """List what each command runs, and what is nearest to those that are not supported."""
        with formatter.section("Commands and what they run"):
            formatter.write_dl([(name, f"rocketpy {ALIASES[name].command}") for name in sorted(ALIASES)])
        with formatter.section("Not supported"):
            formatter.write_dl([(name, MISSING[name]) for name in sorted(MISSING)])

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a name, or an option of the group."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name) for name in sorted(ALIASES) if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, context, incomplete)


@click.group("mqadmin", cls=_Names)
def mqadmin() -> None:
    """Run a command of Apache's mqadmin, by its name and options there. The word "mqadmin" may be left out."""
