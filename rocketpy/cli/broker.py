"""rocketpy broker: inspect, configure and clean up brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli import replication
from rocketpy.cli.command import Group
from rocketpy.cli.options import brokers_option, cluster_option, yes_option
from rocketpy.cli.output import Column, named, rate, time
from rocketpy.cli.rows import row
from rocketpy.cli.values import pairs

if TYPE_CHECKING:
    from rocketpy.cli.session import Session

__all__ = ["RATES", "broker", "show_settings"]


def _percent(row: dict[str, Any]) -> str:
    return "-" if row["diskUsed"] is None else f"{row['diskUsed'] * 100:.0f} %"


RATES = (
    rate("in/s", "putRate"),
    rate("out/s", "getRate"),
    Column("in today", "putsToday", True),
    Column("out today", "getsToday", True),
    Column("disk", _percent, True),
)
_BROKERS = (
    named("cluster", "cluster"),
    named("broker", "name"),
    Column("id", "brokerId", True),
    Column("role", lambda row: "master" if row["isMaster"] else "slave"),
    named("address", "address"),
)
_RUNTIMES = (
    named("broker", "broker"),
    Column("version", lambda row: row["version"] or "-"),
    time("started", "startedAt"),
    *RATES,
    Column("behind (bytes)", "dispatchBehind", True),
    time("oldest message", "oldestMessageAt"),
)
_STATS = (
    Column("over the last", "span"),
    Column("sum", "sum", True),
    rate("a second", "rate"),
    rate("average", "average"),
)


@click.group(cls=Group)
def broker() -> None:
    """Inspect, configure and clean up brokers."""


# --- inspect ------------------------------------------------------------------------------------------------


@broker.command("list")
@cluster_option("brokers")
@click.pass_obj
def list_brokers(session: Session, cluster: str | None) -> None:
    """List the brokers that name servers know."""
    with session.admin() as admin:
        found = admin.brokers.list(cluster=cluster)
    session.output.rows(_BROKERS, (row(each, "is_master") for each in found), empty="no brokers")


@broker.command("config")
@click.argument("broker")
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.pass_obj
def config(session: Session, broker: str, keys: tuple[str, ...]) -> None:
    """Show settings of a broker, all or some, by Java's keys."""
    with session.admin() as admin:
        found = admin.brokers.config(broker)
    show_settings(session, {"broker": broker}, found.settings, keys)


@broker.command("runtime")
@click.argument("broker", required=False)
@cluster_option("brokers")
@click.pass_obj
def runtime(session: Session, broker: str | None, cluster: str | None) -> None:
    """Show a summary of all masters, or all figures of one broker."""
    from rocketpy.errors import ConfigError

    if broker is not None and cluster is not None:
        raise ConfigError("pass a broker or --cluster, not both")
    with session.admin() as admin:
        if broker is None:
            found = session.partly(admin.brokers.runtimes, cluster=cluster)
        else:
            found = (admin.brokers.runtime(broker),)
    if broker is None or session.as_json:
        session.output.rows(_RUNTIMES, map(row, found))
    else:
        session.output.settings(found[0].values)


@broker.command("stats")
@click.argument("broker")
@click.argument("name")
@click.argument("key")
@click.pass_obj
def stats(session: Session, broker: str, name: str, key: str) -> None:
    """Show a statistic of a broker over the last minute, hour and day.

    NAME is TOPIC_PUT_NUMS or TOPIC_PUT_SIZE, and KEY a topic; or NAME is GROUP_GET_NUMS, GROUP_GET_SIZE or
    SNDBCK_PUT_NUMS, and KEY "topic@group".
    """
    from rocketpy.errors import ConfigError

    with session.admin() as admin:
        found = admin.brokers.stats(broker, name, key)
    if found is None:
        raise ConfigError(f"{broker} has no statistic {name} for {key}: check both, or send a message first")
    spans = {"minute": found.minute, "hour": found.hour, "day": found.day}
    rows = [{"broker": broker, "name": name, "key": key, "span": span, **row(each)} for span, each in spans.items()]
    session.output.rows(_STATS, rows)


broker.add_command(replication.replication)


def show_settings(session: Session, server: dict[str, str], settings: Any, keys: tuple[str, ...]) -> None:
    """Show settings of a server.

    Args:
        session: The call.
        server: What names the server in a row.
        settings: Its settings.
        keys: The keys to show; all if there are none.

    Raises:
        ConfigError: The server does not have a key.
    """
    from rocketpy.errors import ConfigError

    if unknown := [key for key in keys if key not in settings]:
        raise ConfigError(f"{next(iter(server.values()))} has no setting {', '.join(unknown)}: check the spelling")
    chosen = {key: settings[key] for key in keys or settings}
    if session.as_json:
        session.output.rows((), [{**server, "settings": chosen}])
    else:
        session.output.settings(chosen)


# --- change ----------------------------------------------------------------------------------------------


@broker.command("update-config")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
@brokers_option
@cluster_option("masters")
@click.pass_obj
def update_config(session: Session, settings: tuple[str, ...], brokers: tuple[str, ...], cluster: str | None) -> None:
    """Change settings of brokers, of all masters by default, by Java's keys."""
    values = pairs("a setting", settings)
    with session.admin() as admin:
        admin.brokers.update_config(values, brokers=brokers or None, cluster=cluster)
    session.output.done(f"changed {', '.join(values)} of {_where(brokers, cluster)}", changed=values)


@broker.command("set-writable")
@click.argument("broker")
@click.argument("writable", type=bool, metavar="yes|no")
@click.pass_obj
def set_writable(session: Session, broker: str, writable: bool) -> None:
    """Make producers use or avoid a broker, for example before it stops.

    BROKER is its name, not its address.
    """
    with session.admin() as admin:
        topics = admin.brokers.set_writable(broker, writable)
    session.output.done(
        f"{broker} is {'writable' if writable else 'read-only'} now, with {topics} topics",
        broker=broker,
        writable=writable,
        topics=topics,
    )


def _cleaning(name: str, call: str, what: str, told: str) -> None:
    """Add a command that deletes something on brokers."""

    @broker.command(name, help=told)
    @brokers_option
    @cluster_option("masters")
    @yes_option
    @click.pass_obj
    def clean(session: Session, brokers: tuple[str, ...], cluster: str | None, yes: bool) -> None:
        session.confirm(f"Delete {what} on {_where(brokers, cluster)}?", yes=yes)
        with session.admin() as admin:
            getattr(admin.brokers, call)(brokers=brokers or None, cluster=cluster)
        session.output.done(f"deleted {what} on {_where(brokers, cluster)}", deleted=what)


_cleaning(
    "delete-expired-files",
    "delete_expired_files",
    "the expired files of the commit log",
    "Delete the expired files of the commit log now, not at the configured hour.",
)
_cleaning(
    "delete-expired-queues",
    "delete_expired_queues",
    "the files of queues whose messages are deleted",
    "Delete the files of queues whose messages have all been deleted.",
)
_cleaning(
    "delete-unused-queues",
    "delete_unused_queues",
    "the queues of topics that no longer exist",
    "Delete the queues of topics that no longer exist.",
)


def _where(brokers: tuple[str, ...], cluster: str | None) -> str:
    return ", ".join(brokers) or ("all masters" if cluster is None else f"the cluster {cluster}")
