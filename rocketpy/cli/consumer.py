"""rocketpy consumer: show connected consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocketpy.cli.command import Command, Group
from rocketpy.cli.output import Column, named, rate, time
from rocketpy.cli.rows import row

if TYPE_CHECKING:
    from rocketpy.admin import ConnectedConsumers, ConsumerState
    from rocketpy.cli.output import Output
    from rocketpy.cli.session import Session

__all__ = ["CLIENTS", "connections", "consumer", "member_offsets", "state", "topics"]

CLIENTS = (
    named("client id", "clientId"),
    named("address", "address"),
    Column("language", "language"),
    Column("version", lambda row: row["version"] or "-"),
    Column("brokers", lambda row: ", ".join(row["brokers"])),
)
_SUBSCRIPTIONS = (
    named("topic", "topic"),
    Column("kind", lambda row: "SQL92" if row["isSql"] else "tags"),
    Column("expression", "expression"),
)
_QUEUES = (
    named("topic", "topic"),
    named("broker", "broker"),
    Column("queue", "queueId", True),
    Column("offset", "commitOffset", True),
    Column("cached", "cachedMessages", True),
    Column("MiB", "cachedMib", True),
    Column("locked", "locked"),
    Column("dropped", "dropped"),
    time("last pull", "lastPullAt"),
    time("last consumed", "lastConsumeAt"),
)
_RATES = (
    named("topic", "topic"),
    rate("pulled/s", "pullRate"),
    Column("pull ms", lambda row: f"{row['pullTime'] * 1000:.1f}", True),
    rate("consumed/s", "consumeRate"),
    Column("consume ms", lambda row: f"{row['consumeTime'] * 1000:.1f}", True),
    rate("failed/s", "failureRate"),
    Column("failed", "failed", True),
)
_OFFSETS = (
    named("client id", "clientId"),
    named("topic", "topic"),
    named("broker", "broker"),
    Column("queue", "queueId", True),
    Column("offset", "offset", True),
)


@click.group(cls=Group)
def consumer() -> None:
    """Show connected consumers."""


@consumer.command("connections")
@click.argument("group")
@click.pass_obj
def connections(session: Session, group: str) -> None:
    """Show the connected members of a group, and its subscriptions."""
    with session.admin() as admin:
        found = session.partly(admin.consumers.connections, group)
    if session.as_json:
        session.output.rows((), [row(found)])
    else:
        _print_connections(session.output, found)


def _print_connections(output: Output, found: ConnectedConsumers) -> None:
    output.rows(CLIENTS, map(row, found.clients), empty="no member is connected")
    if found.clients:
        output.note("")
        output.rows(_SUBSCRIPTIONS, map(row, found.subscriptions), empty="no subscriptions")
        model = found.message_model.value if found.message_model is not None else "-"
        kind = "push" if found.is_push else "pull"
        output.note(f"\n{kind} consumers, {model}, new queues from {found.consume_from_where or '-'}")


@consumer.command("state")
@click.argument("group")
@click.argument("client_id")
@click.option("--stacks", is_flag=True, help="Show the stacks of its threads and tasks too.")
@click.option("--settings", is_flag=True, help="Show its settings too.")
@click.pass_obj
def state(session: Session, group: str, client_id: str, stacks: bool, settings: bool) -> None:
    """Show the queues, rates and settings that a member of a group reports."""
    with session.admin() as admin:
        found = admin.consumers.state(group, client_id, stacks=stacks)
    if session.as_json:
        session.output.rows((), [row(found)])
    else:
        _print_state(session.output, found, settings=settings)


def _print_state(output: Output, found: ConsumerState, *, settings: bool) -> None:
    output.rows(_QUEUES, map(row, found.queues), empty="no queues")
    output.note("")
    output.rows(_RATES, map(row, found.topics), empty="no rates yet")
    output.note("")
    output.rows(_SUBSCRIPTIONS, map(row, found.subscriptions), empty="no subscriptions")
    if settings:
        output.note("")
        output.settings(found.settings)
    if found.stacks is not None:
        output.note("")
        output.lines(found.stacks)


@consumer.command("topics")
@click.argument("group")
@click.pass_obj
def topics(session: Session, group: str) -> None:
    """List the topics in which a group has offsets."""
    with session.admin() as admin:
        found = session.partly(admin.consumers.topics, group)
    session.output.rows([named("topic", "topic")], ({"topic": each} for each in found), empty="no topics")


@click.command("offsets", cls=Command)
@click.argument("group")
@click.argument("topic")
@click.option("--member", metavar="CLIENT_ID", help="Only this member.")
@click.pass_obj
def member_offsets(session: Session, group: str, topic: str, member: str | None) -> None:
    """Show the offsets in a topic that the members of a group report."""
    with session.admin() as admin:
        found = session.partly(admin.consumers.offsets, group, topic, client_id=member)
    session.output.rows(_OFFSETS, map(row, found), empty="no member is connected")


consumer.add_command(member_offsets)
