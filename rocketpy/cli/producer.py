"""rocketpy producer: show connected producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocketpy.cli.command import Group
from rocketpy.cli.consumer import CLIENTS
from rocketpy.cli.output import named, time
from rocketpy.cli.rows import row

if TYPE_CHECKING:
    from rocketpy.cli.session import Session

__all__ = ["producer"]


@click.group(cls=Group)
def producer() -> None:
    """Show connected producers."""


@producer.command("list")
@click.pass_obj
def list_producers(session: Session) -> None:
    """List all connected producers (brokers of 4.9.3 or later only)."""
    with session.admin() as admin:
        found = session.partly(admin.producers.list)
    columns = (named("group", "group"), *CLIENTS, time("last heartbeat", "lastHeartbeatAt"))
    session.output.rows(columns, map(row, found), empty="no producers")


@producer.command("connections")
@click.argument("group")
@click.pass_obj
def connections(session: Session, group: str) -> None:
    """Show the connected members of a producer group."""
    with session.admin() as admin:
        found = session.partly(admin.producers.connections, group)
    session.output.rows(CLIENTS, map(row, found))
