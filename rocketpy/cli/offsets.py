"""rocketpy group reset, clone, commit: set the offsets of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocketpy.cli.command import Command
from rocketpy.cli.options import queue_options, yes_option
from rocketpy.cli.output import Column, named
from rocketpy.cli.rows import row
from rocketpy.cli.values import TIME_HELP, moment
from rocketpy.logs import counted

if TYPE_CHECKING:
    from rocketpy.admin import GroupLag
    from rocketpy.cli.session import Session
    from rocketpy.message import MessageQueue

__all__ = ["clone", "commit", "reset"]

_OFFSETS = (
    named("topic", "topic"),
    named("broker", "broker"),
    Column("queue", "queueId", True),
    Column("offset", "offset", True),
)


def _behind(found: GroupLag, topic: str) -> str:
    if not found.queues:
        return f"which has no offset in {topic}"
    return f"which is {counted(found.lag, 'message')} behind in {topic}"


def _committed(found: GroupLag, queue: MessageQueue) -> int | None:
    return next((each.committed for each in found.queues if each.queue == queue), None)


@click.command("reset", cls=Command, epilog=TIME_HELP)
@click.argument("group")
@click.argument("topic")
@click.option("--to", required=True, metavar="begin|end|TIME", help="Where the group continues to consume.")
@yes_option
@click.pass_obj
def reset(session: Session, group: str, topic: str, to: str, yes: bool) -> None:
    """Set the offsets of a group in all queues of a topic. The group may be running."""
    target = to if to in ("begin", "end") else moment("--to, unless it is begin or end,", to)
    with session.admin() as admin:
        behind = _behind(session.partly(admin.offsets.lag, group, topic=topic), topic)
        session.confirm(f"Set the offsets of the group {group}, {behind}, to {to}?", yes=yes)
        found = admin.offsets.reset(group, topic, target)  # type: ignore[arg-type]  # "begin" or "end"
    session.output.rows(_OFFSETS, map(row, found), empty="no queues")


@click.command("clone", cls=Command)
@click.argument("source")
@click.argument("target")
@click.argument("topic")
@yes_option
@click.pass_obj
def clone(session: Session, source: str, target: str, topic: str, yes: bool) -> None:
    """Copy the offsets of a group in a topic to another group. The group TARGET must not be running."""
    with session.admin() as admin:
        behind = _behind(session.partly(admin.offsets.lag, target, topic=topic), topic)
        session.confirm(f"Set the offsets of the group {target}, {behind}, to those of {source}?", yes=yes)
        admin.offsets.clone(source, target, topic)
    session.output.done(
        f"copied the offsets of {source} in {topic} to {target}", source=source, target=target, topic=topic
    )


@click.command("commit", cls=Command)
@click.argument("group")
@click.argument("topic")
@queue_options
@click.option("--offset", "-o", type=int, required=True, help="Offset of the next message to consume.")
@yes_option
@click.pass_obj
def commit(session: Session, group: str, topic: str, broker: str, queue: int, offset: int, yes: bool) -> None:
    """Set the offset of a group in one queue. Stop its members first: they overwrite it."""
    from rocketpy.errors import ConfigError
    from rocketpy.message import MessageQueue

    with session.admin() as admin:
        place = MessageQueue(topic, broker, queue)
        before = _committed(session.partly(admin.offsets.lag, group, topic=topic), place)
        known = "" if before is None else f"from {before} "
        what = f"the offset of {group} in {topic}, queue {queue} of {broker}, {known}to {offset}"
        session.confirm(f"Set {what}?", yes=yes)
        admin.offsets.commit(group, place, offset)
        after = _committed(session.partly(admin.offsets.lag, group, topic=topic), place)
    if after not in (None, offset):
        raise ConfigError(
            f"{broker} still has the offset {after}: a running member has committed it; stop the members first, or "
            'use "rocketpy group reset", which running members follow'
        )
    session.output.done(f"set {what}", group=group, topic=topic, broker=broker, queueId=queue, offset=offset)
