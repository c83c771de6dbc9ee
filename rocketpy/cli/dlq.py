"""rocketpy dlq: list and replay the dead letters of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocketpy.cli.command import Group
from rocketpy.cli.message import COLUMNS
from rocketpy.cli.options import yes_option
from rocketpy.cli.output import Column, named
from rocketpy.cli.rows import row
from rocketpy.cli.values import TIME_HELP, moment
from rocketpy.logs import counted

if TYPE_CHECKING:
    from rocketpy.cli.session import Session
    from rocketpy.message import MessageExt

__all__ = ["dlq"]


@click.group(cls=Group)
def dlq() -> None:
    """List and replay the dead letters of a group."""


@dlq.command("list", epilog=TIME_HELP)
@click.argument("group")
@click.option("--begin", metavar="TIME", help="Only messages that became dead letters at this time or later.")
@click.option(
    "--count",
    "-c",
    type=int,
    default=32,
    show_default=True,
    metavar="N",
    help="Show at most this many, the oldest first.",
)
@click.pass_obj
def list_letters(session: Session, group: str, begin: str | None, count: int) -> None:
    """List the dead letters of a group: messages that it has failed to consume too often."""
    from rocketpy.cli.traffic.records import record_of

    first = 0 if begin is None else moment("the begin", begin)
    with session.admin() as admin:
        found = session.partly(admin.messages.dead_letters, group, begin=first, max_messages=count)
    columns = (*COLUMNS[:-1], named("from topic", "originTopic"), COLUMNS[-1])
    rows = ({**record_of(each), "originTopic": _origin(each)} for each in found)
    session.output.rows(columns, rows, empty=f"the group {group} has no dead letters")


def _origin(found: MessageExt) -> str | None:
    """The topic that a dead letter comes from."""
    properties = found.system_properties
    return properties.get("RETRY_TOPIC") or properties.get("DLQ_ORIGIN_TOPIC")


@dlq.command("replay")
@click.argument("group")
@click.option("--limit", "-l", type=int, metavar="N", help="Send at most this many, the oldest of each queue first.")
@click.option("--dry-run", is_flag=True, help="Show how many would be sent, and send none.")
@yes_option
@click.pass_obj
def replay(session: Session, group: str, limit: int | None, dry_run: bool, yes: bool) -> None:
    """Send the dead letters of a group to their original topics again.

    All groups of these topics receive them again. The next replay begins where this one ends.
    """
    from rocketpy.admin import DeadLetterReplay
    from rocketpy.client.arguments import check_dead_letters

    check_dead_letters(group, limit)
    with session.admin() as admin:
        done = DeadLetterReplay(replayed=0, skipped=0, remaining=0, topics={})
        if admin.messages.dead_letters(group, max_messages=1):  # a group that never consumed has no topics of its own
            done = admin.messages.replay_dead_letters(group, limit=limit, dry_run=True)
        if not dry_run and done.replayed:
            topics = ", ".join(f"{count} to {topic}" for topic, count in sorted(done.topics.items()))
            question = f"Send {counted(done.replayed, 'dead letter')} of {group} again: {topics}?"
            session.confirm(question, yes=yes)
            done = admin.messages.replay_dead_letters(group, limit=limit)
    columns = (
        Column("to send" if dry_run else "sent", "replayed", True),
        Column("skipped", "skipped", True),
        Column("left", "remaining", True),
        Column("topics", lambda row: ", ".join(f"{topic}: {count}" for topic, count in row["topics"].items()) or "-"),
    )
    session.output.rows(columns, [row(done)])
