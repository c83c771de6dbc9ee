"""rocketpy lag: show how far groups are behind, once or live."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli.command import Command
from rocketpy.cli.live import check_watch, repeated, watch_options
from rocketpy.cli.options import brokers_option, cluster_option, internal_option
from rocketpy.cli.output import Column, named, rate, time
from rocketpy.cli.rows import row
from rocketpy.logs import counted

if TYPE_CHECKING:
    from rocketpy.admin import GroupLag
    from rocketpy.cli.session import Session
    from rocketpy.sync import Admin

__all__ = ["lag"]

_GROUPS = (
    named("group", "group"),
    Column("lag", "lag", True),
    Column("in flight", "inFlight", True),
    rate("consumed/s", "rate"),
    Column("topics", lambda row: str(len(row["topics"])), True),
)
_QUEUES = (
    named("topic", "topic"),
    named("broker", "broker"),
    Column("queue", "queueId", True),
    Column("committed", "committed", True),
    Column("end", "end", True),
    Column("lag", "lag", True),
    Column("in flight", "inFlight", True),
    time("consumed until", "lastConsumedAt"),
)
_QUEUES_OF_ALL = (named("group", "group"), *_QUEUES)
_EVERY = 2.0


class _Lag:
    """What `rocketpy lag` looks at.

    Args:
        admin: The cluster.
        group: The group; None for all.
        topic: Only this topic of it.
        queues: Whether the queues of all groups are shown.
        at_least: Only what is at least so many messages behind.
        options: The brokers or the cluster, and whether groups of RocketMQ's own are shown.
    """

    def __init__(
        self, admin: Admin, group: str | None, topic: str | None, queues: bool, at_least: int, options: dict[str, Any]
    ) -> None:
        self.group = group
        self.by_queue = queues or group is not None
        self.at_least = at_least
        self.columns = _QUEUES if group is not None else _QUEUES_OF_ALL if queues else _GROUPS
        self.empty = "no group has offsets" if group is None else "the group has no offsets"
        if at_least:
            self.empty = f"nothing is {counted(at_least, 'message')} behind"
        self.call = partial(admin.offsets.lags, **options) if group is None else partial(_one, admin, group, topic)

    def again(self, session: Session) -> tuple[list[dict[str, Any]], list[str]]:
        """The rows, and the lines below them."""
        found = session.partly(self.call)
        return self.rows(found), self.below(found)

    def rows(self, found: tuple[GroupLag, ...]) -> list[dict[str, Any]]:
        """The rows of a table: groups, or queues."""
        rows = (each for lag in found for each in (_queue_rows(lag) if self.by_queue else [_group_row(lag)]))
        return [each for each in rows if each["lag"] >= self.at_least]

    def below(self, found: tuple[GroupLag, ...]) -> list[str]:
        """The lines below the table."""
        if self.group is not None:
            return [_total(each) for each in found]
        return [f"{sum(each.lag for each in found)} behind"] if self.by_queue else []


def _one(admin: Admin, group: str, topic: str | None) -> tuple[GroupLag, ...]:
    from rocketpy.errors import BrokersFailedError

    try:
        return (admin.offsets.lag(group, topic=topic),)
    except BrokersFailedError as error:
        error.result = (error.result,)
        raise


def _group_row(found: GroupLag) -> dict[str, Any]:
    return {
        "group": found.group,
        "lag": found.lag,
        "inFlight": found.in_flight,
        "rate": found.rate,
        "topics": list(found.topics),
    }


def _queue_rows(found: GroupLag) -> Iterator[dict[str, Any]]:
    return ({"group": found.group, **row(each, "lag", "in_flight")} for each in found.queues)


def _total(found: GroupLag) -> str:
    return f"{found.group}: {found.lag} behind, {found.in_flight} in flight, {found.rate:.1f} consumed a second"


@click.command("lag", cls=Command)
@click.argument("group", required=False)
@click.option("--topic", "-t", metavar="NAME", help="Only this topic of the group.")
@click.option("--queues", is_flag=True, help="Show the queues of all groups.")
@click.option("--at-least", type=int, default=0, metavar="N", help="Only what is at least N messages behind.")
@brokers_option
@cluster_option("queues on the brokers")
@internal_option("groups")
@watch_options(_EVERY)
@click.pass_obj
def lag(
    session: Session,
    /,
    group: str | None,
    topic: str | None,
    queues: bool,
    at_least: int,
    brokers: tuple[str, ...],
    watch: bool,
    every: float | None,
    times: int | None,
    **options: Any,
) -> None:
    """Show how far all groups are behind, or how far one group is behind in each queue."""
    options["brokers"] = brokers or None
    _check(group, topic, watch, every, times, options)
    with session.admin() as admin:
        look = _Lag(admin, group, topic, queues, at_least, options)
        if watch:
            again = partial(look.again, session)
            repeated(
                session, look.columns, again, empty=look.empty, every=_EVERY if every is None else every, times=times
            )
            return
        found = session.partly(look.call)
    session.output.rows(look.columns, look.rows(found), empty=look.empty)
    for line in look.below(found):
        session.output.note(line)


def _check(
    group: str | None, topic: str | None, watch: bool, every: float | None, times: int | None, options: dict[str, Any]
) -> None:
    from rocketpy.errors import ConfigError

    if group is None and topic is not None:
        raise ConfigError("--topic needs a group: pass GROUP too")
    if group is not None and any(options.values()):
        raise ConfigError("--broker, --cluster and --internal are for all groups: leave GROUP or these options out")
    check_watch(watch, every, times)
