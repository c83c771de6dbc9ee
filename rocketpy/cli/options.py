"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import click

__all__ = [
    "FILE",
    "Decorator",
    "attribute_option",
    "brokers_option",
    "cluster_option",
    "internal_option",
    "queue_options",
    "tags_option",
    "yes_option",
]

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE: Final = click.Path(readable=False)
"""A file, so that shells complete its name. Whether it can be read is found out, and told, where it is opened."""

yes_option: Decorator = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
"""For a command that asks for confirmation."""

brokers_option: Decorator = click.option(
    "--broker", "-b", "brokers", multiple=True, metavar="NAME", help="Only on this broker; repeatable."
)

attribute_option: Decorator = click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Attribute (brokers of 5.x only); repeatable.",
)

tags_option: Decorator = click.option(
    "--tags", metavar="TAGS", help='Only messages with these tags, such as "created || paid".'
)


def queue_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """For a command about one queue."""
    number = click.option("--queue", "-q", type=int, required=True, metavar="N", help="Number of the queue.")
    return click.option("--broker", "-b", required=True, metavar="NAME", help="Broker of the queue.")(number(command))


def cluster_option(what: str) -> Decorator:
    """For a command that can be restricted to one cluster."""
    return click.option("--cluster", "-c", metavar="NAME", help=f"Only {what} of this cluster.")


def internal_option(what: str) -> Decorator:
    """For a list that leaves out what is RocketMQ's own."""
    return click.option("--internal", is_flag=True, help=f"Include RocketMQ's own {what}.")
