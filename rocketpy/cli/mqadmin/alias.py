"""Alias: a command under the name and with the option letters that it has in Apache's mqadmin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import click

from rocketpy.cli.command import HasHelp, common_options
from rocketpy.errors import ConfigError

__all__ = ["ARGUMENT", "IGNORED", "Alias", "Given", "Option", "Words", "command_of", "missing"]

ARGUMENT: Final = "ARGUMENT"
"""The value of the option becomes an argument of our command; arguments follow the order of the options."""
IGNORED: Final = "IGNORED"
"""The option has no effect: our command does what it says in any case, or it means nothing here."""

Words: TypeAlias = Callable[[str], list[str]]
"""Turns the value of an option into words of our command line."""
Given: TypeAlias = Mapping[str, str]
"""The values of the options that were given, by their letters."""


class Option(NamedTuple):
    """An option of mqadmin."""

    letter: str
    """Its letter, without the dash."""
    name: str
    """Its long name, without the dashes."""
    becomes: str | Words | None
    """Our option, ARGUMENT, IGNORED, or a function that makes words of the value; None if it is not supported."""
    required: bool = False
    """Whether mqadmin demands it."""
    flag: bool = False
    """Whether it has no value."""


class Alias(NamedTuple):
    """A command of mqadmin."""

    command: str
    """Our command, with options that are always passed; the help names it even if `make` chooses another."""
    options: tuple[Option, ...]
    """The options of mqadmin, in the order of our arguments."""
    make: Callable[[Given], list[str]] | None = None
    """Makes the words of our command line, if the options do not map one by one."""

    def words(self, given: Given) -> list[str]:
        """The words of our command line.

        Raises:
            ConfigError: An option is not supported, or its value cannot be used.
        """
        for each in self.options:
            if each.becomes is None and each.letter in given:
                raise ConfigError(f"rocketpy does not support -{each.letter} ({each.name}) here: leave it out")
        if self.make is not None:
            return self.make(given)
        options: list[str] = []
        arguments: list[str] = []
        for each in self.options:
            if each.letter not in given or each.becomes in (None, IGNORED):
                continue
            value = given[each.letter]
            if each.becomes == ARGUMENT:
                arguments.append(value)
            elif isinstance(each.becomes, str):
                options += [each.becomes] if each.flag else [each.becomes, value]
            elif each.becomes is not None:
                options += each.becomes(value)
        return [*self.command.split(), *options, *(["--", *arguments] if arguments else [])]


class _Command(HasHelp):
    """A command of mqadmin, which runs one of ours."""

    def __init__(self, name: str, alias: Alias) -> None:
        self.alias = alias
        self.common = common_options(verbose=["--verbose"])
        self.common[0].opts.append("--namesrvAddr")
        own = [
            click.Option(
                [f"-{each.letter}", f"--{each.name}", f"given_{each.letter}"],
                required=each.required,
                is_flag=each.flag or None,  # False would make the value optional
                metavar=None if each.flag else "VALUE",
                help=_told(each),
            )
            for each in alias.options
        ]
        asks = click.Option(["--yes", "-y"], is_flag=True, help="Do not ask for confirmation.")
        super().__init__(
            name,
            help=f'Run "rocketpy {alias.command}" with the options of mqadmin.',
            params=[*own, asks, *self.common],
            hidden=True,
        )

    def invoke(self, context: click.Context) -> Any:
        """Run our command."""
        values = {name.removeprefix("given_"): value for name, value in context.params.items() if name != "yes"}
        given = {
            letter: "" if value is True else value for letter, value in values.items() if value not in (None, False)
        }
        command, name, rest = _found(context.find_root(), self.alias.words(given))
        if context.params["yes"] and any("--yes" in each.opts for each in command.params):
            rest.insert(0, "--yes")
        with command.make_context(name, rest, parent=context.find_root()) as ours:
            return command.invoke(ours)


def _told(option: Option) -> str:
    if option.becomes is None:
        return "Not supported."
    if option.becomes == IGNORED:
        return "Accepted, without effect."
    return option.becomes if isinstance(option.becomes, str) and option.becomes != ARGUMENT else ""


def _found(root: click.Context, words: list[str]) -> tuple[click.Command, str, list[str]]:
    """Our command, its full name, and the words that follow it."""
    command: click.Command = root.command
    names: list[str] = []
    while isinstance(command, click.Group):
        name = words[len(names)]
        inner = command.get_command(root, name)
        if inner is None:
            raise AssertionError(f"no command {' '.join([*names, name])}")
        names.append(name)
        command = inner
    return command, " ".join(names), words[len(names) :]


def command_of(name: str, alias: Alias) -> click.Command:
    """The command of an alias."""
    return _Command(name, alias)


def missing(name: str, nearest: str) -> click.Command:
    """A command that refuses, and names what is nearest to a command of mqadmin that is not supported."""

    def refuse(words: Iterable[str]) -> None:
        raise ConfigError(f"rocketpy does not support {name} of mqadmin; {nearest}")

    return click.Command(
        name,
        callback=refuse,
        help=f"Not supported; {nearest}.",
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True, "help_option_names": []},
        hidden=True,
    )
