"""rocketpy cluster: show clusters and the rates of their brokers, and export what they have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli import export, probe
from rocketpy.cli.asking import side_by_side
from rocketpy.cli.broker import RATES
from rocketpy.cli.command import Group
from rocketpy.cli.output import Column, named, time
from rocketpy.cli.rows import row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketpy.admin import BrokerEntry, BrokerRuntime
    from rocketpy.cli.session import Session
    from rocketpy.sync import Admin

__all__ = ["cluster"]

_CLUSTERS = (
    named("cluster", "cluster"),
    Column("masters", "masters", True),
    Column("slaves", "slaves", True),
    Column("answered", "answered", True),
    *RATES[:4],
)
_BROKERS = (
    named("cluster", "cluster"),
    named("broker", "name"),
    Column("id", "brokerId", True),
    named("address", "address"),
    Column("version", lambda row: row["version"] or "-"),
    *RATES,
    time("started", "startedAt"),
)
_FIGURES = ("version", "startedAt", "putRate", "getRate", "putsToday", "getsToday", "diskUsed")


@click.group(cls=Group)
def cluster() -> None:
    """Show clusters and the rates of their brokers, and export what they have."""


@cluster.command("list")
@click.pass_obj
def list_clusters(session: Session) -> None:
    """List the clusters, with the total rates of their masters."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for each in _brokers(session, None):
        rows.setdefault(each["cluster"], []).append(each)
    session.output.rows(_CLUSTERS, (_together(name, found) for name, found in rows.items()), empty="no clusters")


@cluster.command("show")
@click.argument("cluster", required=False)
@click.pass_obj
def show(session: Session, cluster: str | None) -> None:
    """Show the brokers of one or all clusters, masters and slaves, with their rates."""
    session.output.rows(_BROKERS, _brokers(session, cluster), empty="no brokers")


cluster.add_command(probe.probe)
cluster.add_command(export.export)


def _brokers(session: Session, cluster: str | None) -> list[dict[str, Any]]:
    """A row for each broker. Figures of those that do not answer are None, and their errors are reported at the end."""
    with session.admin() as admin:
        entries = admin.brokers.list(cluster=cluster)
        states = _states(session, admin, entries)
    return [_broker_row(each, states.get(each.address)) for each in entries]


def _states(session: Session, admin: Admin, entries: Iterable[BrokerEntry]) -> dict[str, BrokerRuntime]:
    from rocketpy.errors import BrokersFailedError, RocketMQError

    found: dict[str, BrokerRuntime] = {}
    failures: dict[str, RocketMQError] = {}

    def ask(entry: BrokerEntry) -> None:
        try:
            found[entry.address] = admin.brokers.runtime(_place(admin, entry))
        except RocketMQError as error:
            failures[f"{entry.name} ({entry.address})"] = error

    side_by_side(ask, entries)
    if failures:
        doing = "asking for the state of the brokers"
        session.failed.append(BrokersFailedError(doing, failures=failures, done=sorted(found)))
    return found


def _place(admin: Admin, entry: BrokerEntry) -> str:
    """A broker as calls take it: masters by their names, slaves by the address at which they can be reached."""
    from rocketpy.client.routes.publish_info import map_address

    return entry.name if entry.is_master else map_address(entry.address, admin.config.address_map)


def _broker_row(entry: BrokerEntry, state: BrokerRuntime | None) -> dict[str, Any]:
    figures = row(state) if state is not None else {}
    return {**row(entry), **{name: figures.get(name) for name in _FIGURES}}


def _together(name: str, brokers: list[dict[str, Any]]) -> dict[str, Any]:
    masters = [each for each in brokers if each["brokerId"] == 0]
    sums = {key: sum(_known(each[key] for each in masters)) for key in ("putRate", "getRate", "putsToday", "getsToday")}
    return {
        "cluster": name,
        "masters": len(masters),
        "slaves": len(brokers) - len(masters),
        "answered": sum(each["version"] is not None for each in brokers),
        **sums,
    }


def _known(values: Iterable[float | None]) -> Iterator[float]:
    return (each for each in values if each is not None)
