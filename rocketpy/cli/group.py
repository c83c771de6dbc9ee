"""rocketpy group: list, inspect, create, update and delete consumer groups, and set their offsets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli import consumer, lag, offsets
from rocketpy.cli.choosing import in_cluster
from rocketpy.cli.command import Group
from rocketpy.cli.importing import GROUPS, IMPORT_HELP, create_each
from rocketpy.cli.options import (
    FILE,
    Decorator,
    attribute_option,
    brokers_option,
    cluster_option,
    internal_option,
    yes_option,
)
from rocketpy.cli.output import Column, named
from rocketpy.cli.rows import row
from rocketpy.cli.values import attribute_changes, pairs, quoted

if TYPE_CHECKING:
    from rocketpy.cli.session import Session

__all__ = ["group"]

_SETTINGS = (
    named("group", "group"),
    named("broker", "broker"),
    Column("consume", "consume"),
    Column("broadcast", "broadcast"),
    Column("orderly", "orderly"),
    Column("retries", "maxRetries", True),
    Column("retry queues", "retryQueues", True),
    Column("timeout (s)", lambda row: f"{row['consumeTimeout']:g}", True),
    Column("may not read", lambda row: ", ".join(row["forbiddenTopics"]) or "-"),
    Column("attributes", lambda row: quoted(row["attributes"])),
)


@click.group(cls=Group)
def group() -> None:
    """Manage consumer groups and their offsets."""


# --- inspect ------------------------------------------------------------------------------------------------


@group.command("list")
@cluster_option("groups on the brokers")
@internal_option("groups")
@click.pass_obj
def list_groups(session: Session, cluster: str | None, internal: bool) -> None:
    """List the consumer groups."""
    with session.admin() as admin:
        found = session.partly(admin.groups.list, cluster=cluster, internal=internal)
    session.output.rows([named("group", "group")], ({"group": each} for each in found), empty="no groups")


@group.command("get")
@click.argument("group")
@click.pass_obj
def get(session: Session, group: str) -> None:
    """Show the settings of a group on each broker."""
    with session.admin() as admin:
        found = session.partly(admin.groups.get, group)
    session.output.rows(_SETTINGS, map(row, found))


group.add_command(lag.lag)
group.add_command(consumer.topics)
group.add_command(consumer.connections, "members")
group.add_command(consumer.state)
group.add_command(consumer.member_offsets)

# --- change ----------------------------------------------------------------------------------------------


def _setting_options(*, is_new: bool) -> Decorator:
    """The options for the settings of a group; a new one has defaults, and another keeps what is not given."""
    in_order = "--orderly" if is_new else "--orderly/--no-orderly"

    def number(name: str, kind: type, default: float, help: str) -> Decorator:  # noqa: A002 - what click calls it
        return click.option(name, type=kind, default=default if is_new else None, show_default=is_new, help=help)

    options = (
        click.option("--consume/--no-consume", default=True if is_new else None, help="Whether the group may consume."),
        click.option(
            "--broadcast/--no-broadcast", default=True if is_new else None, help="Whether it may use broadcasting."
        ),
        click.option(in_order, default=False if is_new else None, help="Consume in order (brokers of 5.x only)."),
        number("--max-retries", int, 16, "Retries before a message is a dead letter."),
        number("--retry-queues", int, 1, "Queues of its retry topic."),
        number("--consume-timeout", float, 900, "Seconds that consuming a message may take; a multiple of 60."),
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@group.command("create")
@click.argument("group")
@_setting_options(is_new=True)
@attribute_option
@brokers_option
@cluster_option("on the masters")
@click.option("--exist-ok", is_flag=True, help="Update the group if it exists.")
@click.pass_obj
def create(
    session: Session, /, group: str, attributes: tuple[str, ...], brokers: tuple[str, ...], **given: Any
) -> None:
    """Create a consumer group, on all masters by default."""
    chosen: dict[str, Any] = {"brokers": brokers or None, "attributes": pairs("--attribute", attributes)}
    with session.admin() as admin:
        found = admin.groups.create(group, **chosen, **given)
    session.output.rows(_SETTINGS, map(row, found))


@group.command("import", epilog=IMPORT_HELP.format("updateSubGroupList"))
@click.argument("file", type=FILE)
@brokers_option
@cluster_option("on the masters")
@click.option("--exist-ok", is_flag=True, help="Update groups that exist.")
@click.pass_obj
def import_groups(session: Session, file: str, brokers: tuple[str, ...], cluster: str | None, exist_ok: bool) -> None:
    """Create all consumer groups of a file, on all masters by default."""
    with session.admin() as admin:
        create = partial(admin.groups.create, brokers=brokers or None, cluster=cluster, exist_ok=exist_ok)
        create_each(session, GROUPS, file, create, _SETTINGS)


@group.command("update")
@click.argument("group")
@_setting_options(is_new=False)
@attribute_option
@brokers_option
@cluster_option("on the brokers")
@click.pass_obj
def update(
    session: Session,
    /,
    group: str,
    attributes: tuple[str, ...],
    brokers: tuple[str, ...],
    cluster: str | None,
    **given: Any,
) -> None:
    """Update settings of a consumer group; the others are kept.

    --attribute NAME= removes an attribute.
    """
    chosen: dict[str, Any] = {
        "brokers": brokers or None,
        "attributes": attribute_changes(attributes),
    }
    with session.admin() as admin:
        if cluster is not None:
            holders = {each.broker for each in admin.groups.get(group)}
            chosen["brokers"] = in_cluster(admin, cluster, brokers, holders, f"the group {group}")
        found = admin.groups.update(group, **chosen, **given)
    session.output.rows(_SETTINGS, map(row, found))


@group.command("delete")
@click.argument("group")
@click.option("--offsets", is_flag=True, help="Delete its committed offsets too.")
@cluster_option("on the brokers")
@yes_option
@click.pass_obj
def delete(session: Session, group: str, offsets: bool, cluster: str | None, yes: bool) -> None:
    """Delete a consumer group. Stop its members first: they create it again."""
    with session.admin() as admin:
        session.partly(admin.groups.get, group)
        what = f"the group {group}{' and its offsets' if offsets else ''}"
        what += "" if cluster is None else f" in the cluster {cluster}"
        session.confirm(f"Delete {what}?", yes=yes)
        admin.groups.delete(group, offsets=offsets, cluster=cluster)
    session.output.done(f"deleted {what}", deleted=group)


@group.command("set-readable")
@click.argument("group")
@click.argument("topic")
@click.argument("readable", type=bool, metavar="yes|no")
@click.pass_obj
def set_readable(session: Session, group: str, topic: str, readable: bool) -> None:
    """Allow or forbid a group to read a topic (brokers of 5.x only)."""
    with session.admin() as admin:
        admin.groups.set_readable(group, topic, readable)
    session.output.done(
        f"{group} {'may' if readable else 'may not'} read {topic}", group=group, topic=topic, readable=readable
    )


group.add_command(offsets.reset)
group.add_command(offsets.clone)
group.add_command(offsets.commit)
