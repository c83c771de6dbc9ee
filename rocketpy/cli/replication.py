"""rocketpy broker replication: show how masters and slaves keep up with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli.asking import answers
from rocketpy.cli.command import Command
from rocketpy.cli.options import cluster_option
from rocketpy.cli.output import Column, named, time
from rocketpy.cli.rows import row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketpy.cli.session import Session

__all__ = ["replication"]


def _kib(row: dict[str, Any]) -> str:
    return "-" if row["byteRate"] is None else f"{row['byteRate'] / 1024:.1f}"


_MASTERS = (
    named("broker", "broker"),
    Column("end", "commitLogEnd", True),
    named("slave", "address"),
    Column("acknowledged", "acknowledged", True),
    Column("behind (bytes)", "behind", True),
    Column("in step", "isInSync"),
    Column("KiB/s", _kib, True),
)
_SLAVE = (
    named("broker", "broker"),
    Column("end", "commitLogEnd", True),
    named("master", "master"),
    Column("flushed by master", "masterFlushed", True),
    Column("KiB/s", _kib, True),
    time("last received", "lastReadAt"),
    time("last sent", "lastWrittenAt"),
)
_NONE = {"address": None, "acknowledged": None, "behind": None, "isInSync": None, "byteRate": None}


@click.command("replication", cls=Command)
@click.argument("broker", required=False)
@cluster_option("masters")
@click.pass_obj
def replication(session: Session, broker: str | None, cluster: str | None) -> None:
    """Show the slaves of one or all masters, or the master of a slave given by its address (brokers of 5.x only)."""
    from rocketpy.errors import ConfigError

    if broker is not None and cluster is not None:
        raise ConfigError("pass a broker or --cluster, not both")
    with session.admin() as admin:
        names = [each.name for each in admin.brokers.list(cluster=cluster) if each.is_master]
        wanted = names if broker is None else [broker]
        found = answers(session, wanted, admin.brokers.replication, "asking for the state of replication").values()
    if session.as_json:
        session.output.rows((), (row(each, "in_sync") for each in found))
        return
    slaves = [row(each) for each in found if not each.is_master]
    if slaves:
        session.output.rows(_SLAVE, slaves)
    else:
        session.output.rows(_MASTERS, (line for each in found for line in _lines(row(each))), empty="no masters")


def _lines(master: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A line for each slave, or one without a slave."""
    return ({**master, **each} for each in master["slaves"] or [_NONE])
