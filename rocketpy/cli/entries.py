"""rocketpy message entries: show entries of a consume queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocketpy.cli.command import Command
from rocketpy.cli.output import Column, named
from rocketpy.cli.rows import row

if TYPE_CHECKING:
    from rocketpy.cli.session import Session
    from rocketpy.sync import Admin

__all__ = ["entries"]

_ENTRIES = (
    Column("offset", "offset", True),
    Column("position", "position", True),
    Column("size", "size", True),
    Column("tags code", "tagsCode", True),
    Column("delivered", "delivered"),
    named("remark", "remark"),
)


@click.command("entries", cls=Command)
@click.argument("topic")
@click.option("--broker", "-b", metavar="NAME", help="Broker of the queue.  [default: the first that has the topic]")
@click.option("--queue", "-q", type=int, required=True, metavar="N", help="Number of the queue.")
@click.option("--begin", type=int, default=0, show_default=True, metavar="OFFSET", help="Offset of the first entry.")
@click.option("--count", type=int, default=10, show_default=True, metavar="N", help="Most entries to show.")
@click.option("--group", "-g", metavar="GROUP", help="Show which messages this group would get. It must be running.")
@click.pass_obj
def entries(
    session: Session, topic: str, broker: str | None, queue: int, begin: int, count: int, group: str | None
) -> None:
    """Show entries of a consume queue: where in the commit log its messages are, without the messages."""
    from rocketpy.message import MessageQueue

    with session.admin() as admin:
        place = MessageQueue(topic, _broker(admin, topic, broker), queue)
        found = admin.messages.entries(place, begin=begin, count=count, group=group)
    where = {"topic": topic, "broker": place.broker_name, "queueId": queue}
    rows = ({**where, **row(each)} for each in found.entries)
    session.output.rows(_ENTRIES, rows, empty="no entries there")
    session.output.note(f"the queue goes from offset {found.begin} to {found.end}")
    if group is not None:
        subscribes = f"subscribes to {found.expression}" if found.expression else "is offline, or does not subscribe"
        session.output.note(f"{group} {subscribes}")
        if found.filter not in (None, "null"):
            session.output.note(f"filter: {found.filter}")


def _broker(admin: Admin, topic: str, broker: str | None) -> str:
    """The name of a broker that was given by name or address, or not at all."""
    from rocketpy.errors import BrokerNotFoundError

    if broker is None:
        return next((each.broker for each in admin.topics.route(topic).brokers), "")
    if ":" not in broker:
        return broker
    known = {each.address: each.name for each in admin.brokers.list()}
    if broker not in known:
        raise BrokerNotFoundError(f"there is no broker at {broker}", name=broker, known=sorted(known.values()))
    return known[broker]
