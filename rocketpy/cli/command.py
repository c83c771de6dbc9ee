"""Commands with the options that they all share, and groups of such commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.core import ParameterSource

from rocketpy.cli.options import FILE
from rocketpy.cli.session import Session

__all__ = ["Command", "Group", "HasHelp", "common_options"]

_SENTENCE = 300
"""Characters of the first sentence of a help text, which click would cut."""


def _keep(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Keep the value of a common option for the session; one that is closer to the command wins."""
    if value is None or value is False or option.name is None:
        return
    session = context.find_root().ensure_object(Session)
    # Every context of a command line sees the environment, the last one after an option of the first one.
    is_of_environment = context.get_parameter_source(option.name) is ParameterSource.ENVIRONMENT
    if not (is_of_environment and getattr(session, option.name)):
        setattr(session, option.name, value)


def _common(*names: str, **settings: Any) -> click.Option:
    return click.Option(names, expose_value=False, callback=_keep, **settings)


def common_options(*, verbose: Sequence[str] = ("--verbose", "-v")) -> list[click.Option]:
    """The options that may be given before or after a command, or between the names of a group and of its command.

    Args:
        verbose: The names of the last one, for commands that need its letter themselves.
    """
    return [
        _common("--namesrv", "-n", metavar="ADDR", help='Name servers, such as "a:9876;b:9876".  [env: NAMESRV_ADDR]'),
        _common("--timeout", type=float, metavar="SECONDS", help="Timeout of each request.  [default: 3]"),
        _common(
            "--config",
            "config_file",
            type=FILE,
            metavar="FILE",
            envvar="ROCKETPY_CONFIG",
            show_envvar=True,
            help="TOML file with client settings, such as the access key.",
        ),
        _common("--json", "as_json", is_flag=True, help="Print one JSON object per line."),
        _common(*verbose, is_flag=True, help="Log what the client does to standard error."),
    ]


def _write(
    formatter: click.HelpFormatter, context: click.Context, title: str, options: Sequence[click.Parameter]
) -> None:
    # click of 8.5 has a record for arguments too, which the usage shows already.
    given = [each for each in options if isinstance(each, click.Option)]
    if records := [record for each in given if (record := each.get_help_record(context)) is not None]:
        with formatter.section(title):
            formatter.write_dl(records)


class HasHelp(click.Command):
    """A command with -h as well as --help in every context: click keeps what it finds in the first one."""

    def get_help_option_names(self, context: click.Context) -> list[str]:
        """Both names."""
        return ["-h", "--help"]


class Command(HasHelp):
    """A command that also takes the common options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.common = common_options()
        self.params.extend(self.common)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """List its own options before the common ones."""
        own = [each for each in self.get_params(context) if each not in self.common]
        _write(formatter, context, "Options", own)
        _write(formatter, context, "Common options", self.common)


class Group(HasHelp, click.Group):
    """A group of such commands."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.common: list[click.Option] = []
        if not any(each.name == "as_json" for each in self.params):
            self.common = common_options()
            self.params.extend(self.common)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """List its own options, and its commands. The help of each of them has the common options too."""
        _write(formatter, context, "Options", [each for each in self.get_params(context) if each not in self.common])
        self.format_commands(context, formatter)

    def list_commands(self, context: click.Context) -> list[str]:
        """The commands in the order in which they were added."""
        return list(self.commands)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the whole first sentence of each."""
        found = [(name, self.get_command(context, name)) for name in self.list_commands(context)]
        rows = [(name, each.get_short_help_str(limit=_SENTENCE)) for name, each in found if each is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
