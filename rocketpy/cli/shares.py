"""rocketpy topic shares: show which queues of a topic the members of a group would have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli.command import Command
from rocketpy.cli.output import Column, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketpy.cli.session import Session

__all__ = ["shares"]

_SHARES = (
    named("client id", "clientId"),
    named("broker", "broker"),
    Column("queue", "queueId", True),
)
_STRATEGIES = ("averagely", "by_circle", "consistent_hash")


@click.command("shares", cls=Command)
@click.argument("topic")
@click.argument("client_ids", nargs=-1, required=True, metavar="CLIENT_ID...")
@click.option(
    "--strategy", type=click.Choice(_STRATEGIES), default="averagely", show_default=True, help="How queues are shared."
)
@click.pass_obj
def shares(session: Session, topic: str, client_ids: tuple[str, ...], strategy: str) -> None:
    """Show which queues of a topic each member would consume if a group had exactly these members.

    The order of the members does not matter: a group sorts their client ids.
    """
    with session.admin() as admin:
        brokers = admin.topics.route(topic).brokers
    readable = {each.broker: each.read_queues for each in brokers if "r" in each.permission}
    rows = list(_rows(topic, readable, client_ids, strategy))
    session.output.rows(_SHARES, rows, empty="no queue of the topic can be read")
    if idle := sorted({*client_ids} - {each["clientId"] for each in rows}):
        session.output.note(f"without a queue: {', '.join(idle)}")


def _rows(topic: str, readable: dict[str, int], client_ids: tuple[str, ...], strategy: str) -> Iterator[dict[str, Any]]:
    from rocketpy.consumer.rebalancing.allocate import allocate, java_sorted
    from rocketpy.consumer.rebalancing.allocate import strategy as strategy_of
    from rocketpy.message import MessageQueue

    queues = [MessageQueue(topic, name, number) for name, count in readable.items() for number in range(count)]
    for member in java_sorted(client_ids):
        for queue in allocate(strategy_of(strategy), queues, client_ids, member, topic=topic):
            yield {"clientId": member, "topic": topic, "broker": queue.broker_name, "queueId": queue.queue_id}
