"""rocketpy topic: list, inspect, create, update and delete topics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli import flows, shares
from rocketpy.cli.choosing import in_cluster
from rocketpy.cli.command import Group
from rocketpy.cli.importing import IMPORT_HELP, TOPICS, create_each
from rocketpy.cli.options import FILE, attribute_option, brokers_option, cluster_option, internal_option, yes_option
from rocketpy.cli.output import Column, named, time
from rocketpy.cli.rows import row
from rocketpy.cli.text import escaped
from rocketpy.cli.values import TIME_HELP, attribute_changes, moment, pairs, quoted
from rocketpy.logs import counted

if TYPE_CHECKING:
    from rocketpy.cli.session import Session

__all__ = ["topic"]

_SETTINGS = (
    named("topic", "topic"),
    named("broker", "broker"),
    Column("read queues", "readQueues", True),
    Column("write queues", "writeQueues", True),
    Column("permission", lambda row: row["permission"] or "none"),
    Column("order", "order"),
    Column("attributes", lambda row: quoted(row["attributes"])),
)
_ROUTE = (
    named("broker", "broker"),
    named("cluster", "cluster"),
    Column("addresses", lambda row: quoted(row["addresses"])),
    Column("read queues", "readQueues", True),
    Column("write queues", "writeQueues", True),
    Column("permission", lambda row: row["permission"] or "none"),
)
_STATS = (
    named("broker", "broker"),
    Column("queue", "queueId", True),
    Column("begin", "begin", True),
    Column("end", "end", True),
    Column("messages", "messages", True),
    time("last written", "lastWrittenAt"),
)
_OFFSETS = (named("broker", "broker"), Column("queue", "queueId", True), Column("offset", "offset", True))
_PERMISSION = click.option(
    "--permission", "-p", metavar="rw|r|w|none", help="What clients may do: read, write, both or neither."
)
_TYPE = click.option(
    "--message-type", metavar="TYPE", help="NORMAL, FIFO, DELAY, TRANSACTION or MIXED (brokers of 5.x only)."
)


@click.group(cls=Group)
def topic() -> None:
    """List, inspect, create, update and delete topics."""


# --- inspect ------------------------------------------------------------------------------------------------


@topic.command("list")
@cluster_option("topics on the brokers")
@internal_option("topics, retry topics and topics of dead letters")
@click.pass_obj
def list_topics(session: Session, cluster: str | None, internal: bool) -> None:
    """List the topics."""
    with session.admin() as admin:
        found = admin.topics.list(cluster=cluster, internal=internal)
    session.output.rows([named("topic", "topic")], ({"topic": each} for each in found), empty="no topics")


@topic.command("get")
@click.argument("topic")
@click.pass_obj
def get(session: Session, topic: str) -> None:
    """Show the settings of a topic on each broker."""
    with session.admin() as admin:
        found = session.partly(admin.topics.get, topic)
    session.output.rows(_SETTINGS, map(row, found))


@topic.command("route")
@click.argument("topic")
@click.pass_obj
def route(session: Session, topic: str) -> None:
    """Show the brokers that hold a topic, as name servers list them."""
    with session.admin() as admin:
        found = admin.topics.route(topic)
    session.output.rows(_ROUTE, ({"topic": topic, **row(each)} for each in found.brokers), empty="on no broker")
    if found.order_config:
        session.output.note(f"order configuration: {escaped(found.order_config)}")


@topic.command("stats")
@click.argument("topic")
@click.pass_obj
def stats(session: Session, topic: str) -> None:
    """Show where each queue of a topic begins and ends."""
    with session.admin() as admin:
        found = session.partly(admin.topics.stats, topic)
    session.output.rows(_STATS, (row(each, "messages") for each in found.queues), empty="no queues")
    session.output.note(f"{counted(found.messages, 'message')}, {found.put_rate:.1f} a second in the last minute")


@topic.command("offsets", epilog=TIME_HELP)
@click.argument("topic")
@click.argument("time")
@click.pass_obj
def offsets(session: Session, topic: str, time: str) -> None:
    """Show the offset in each queue of the first message stored at or after TIME."""
    at = moment("TIME", time)
    with session.admin() as admin:
        queues = [each.queue for each in session.partly(admin.topics.stats, topic).queues]
        found: list[dict[str, Any]] = [
            {"topic": topic, "broker": each.broker_name, "queueId": each.queue_id, "offset": admin.offsets.at(each, at)}
            for each in queues
        ]
    session.output.rows(_OFFSETS, found, empty="no queues")


@topic.command("groups")
@click.argument("topic")
@click.pass_obj
def groups(session: Session, topic: str) -> None:
    """List the groups that subscribe to a topic or have offsets in it."""
    with session.admin() as admin:
        found = session.partly(admin.consumers.of_topic, topic)
    session.output.rows([named("group", "group")], ({"group": each} for each in found), empty="no groups")


topic.add_command(flows.traffic)
topic.add_command(shares.shares)

# --- change ----------------------------------------------------------------------------------------------


@topic.command("create")
@click.argument("topic")
@click.option("--queues", "-w", type=int, default=8, show_default=True, help="Write queues on each broker.")
@click.option("--read-queues", "-r", type=int, help="Read queues on each broker, if not as many.")
@_PERMISSION
@click.option("--order", is_flag=True, help="Keep using the same queues while a broker is down, for messages in order.")
@_TYPE
@attribute_option
@brokers_option
@cluster_option("on the masters")
@click.option("--exist-ok", is_flag=True, help="Update the topic if it exists.")
@click.pass_obj
def create(
    session: Session,
    /,
    topic: str,
    permission: str | None,
    attributes: tuple[str, ...],
    brokers: tuple[str, ...],
    **given: Any,
) -> None:
    """Create a topic, on all masters by default."""
    chosen: dict[str, Any] = {"brokers": brokers or None, "attributes": pairs("--attribute", attributes)}
    with session.admin() as admin:
        found = admin.topics.create(topic, permission=_permission(permission or "rw"), **chosen, **given)
    session.output.rows(_SETTINGS, map(row, found))


@topic.command("import", epilog=IMPORT_HELP.format("updateTopicList"))
@click.argument("file", type=FILE)
@brokers_option
@cluster_option("on the masters")
@click.option("--exist-ok", is_flag=True, help="Update topics that exist.")
@click.pass_obj
def import_topics(session: Session, file: str, brokers: tuple[str, ...], cluster: str | None, exist_ok: bool) -> None:
    """Create all topics of a file, on all masters by default."""
    with session.admin() as admin:
        create = partial(admin.topics.create, brokers=brokers or None, cluster=cluster, exist_ok=exist_ok)
        create_each(session, TOPICS, file, create, _SETTINGS)


@topic.command("update")
@click.argument("topic")
@click.option("--queues", "-w", type=int, help="Write queues on each broker.")
@click.option("--read-queues", "-r", type=int, help="Read queues on each broker.")
@_PERMISSION
@click.option("--order/--no-order", default=None, help="Whether to keep using the same queues while a broker is down.")
@_TYPE
@attribute_option
@brokers_option
@cluster_option("on the brokers")
@click.pass_obj
def update(
    session: Session,
    /,
    topic: str,
    permission: str | None,
    attributes: tuple[str, ...],
    brokers: tuple[str, ...],
    cluster: str | None,
    **given: Any,
) -> None:
    """Update settings of a topic; the others are kept.

    --attribute NAME= removes an attribute.
    """
    chosen: dict[str, Any] = {
        "brokers": brokers or None,
        "attributes": attribute_changes(attributes),
    }
    with session.admin() as admin:
        if cluster is not None:
            holders = {each.broker for each in admin.topics.route(topic).brokers}
            chosen["brokers"] = in_cluster(admin, cluster, brokers, holders, f"the topic {topic}")
        found = admin.topics.update(topic, permission=_permission(permission), **chosen, **given)
    session.output.rows(_SETTINGS, map(row, found))


@topic.command("delete")
@click.argument("topic")
@cluster_option("on the brokers")
@yes_option
@click.pass_obj
def delete(session: Session, topic: str, cluster: str | None, yes: bool) -> None:
    """Delete a topic and its messages."""
    with session.admin() as admin:
        found = session.partly(admin.topics.stats, topic)
        doomed = found.queues
        if cluster is not None:
            names = {each.name for each in admin.brokers.list(cluster=cluster)}
            doomed = tuple(each for each in doomed if each.queue.broker_name in names)
        count = sum(each.messages for each in doomed)
        where = "" if cluster is None else f" in the cluster {cluster}"
        session.confirm(f"Delete the topic {topic} and its {counted(count, 'message')}{where}?", yes=yes)
        admin.topics.delete(topic, cluster=cluster)
    session.output.done(f"deleted the topic {topic}{where}", deleted=topic)


def _permission(text: str | None) -> Any:
    return "" if text == "none" else text
