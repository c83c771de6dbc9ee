"""rocketpy trace: show what traced clients did with a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rocketpy.cli.command import Command
from rocketpy.cli.output import Column, named, time
from rocketpy.cli.rows import row

if TYPE_CHECKING:
    from rocketpy.cli.session import Session
    from rocketpy.trace.decoding import TraceRecord

__all__ = ["trace"]


def _row(record: TraceRecord) -> dict[str, Any]:
    """A record as a row, in which constants have their names."""
    names = {"contextCode": record.context_code, "messageType": record.message_type}
    return {**row(record), **{field: None if each is None else each.name for field, each in names.items()}}


def _ok(found: dict[str, Any]) -> str:
    return {None: "-", True: "yes", False: "no"}[found["success"]]


def _details(found: dict[str, Any]) -> str:
    from rocketpy.cli.text import escaped

    parts = [f"{name}={found[field]}" for name, field in _DETAILS.items() if found[field] is not None]
    return escaped(", ".join(parts)) or "-"


_DETAILS = {
    "retries": "retryTimes",
    "result": "contextCode",
    "type": "messageType",
    "state": "transactionState",
    "client": "clientHost",
    "keys": "keys",
    "tags": "tags",
}
COLUMNS = (
    time("time", "timestamp"),
    Column("kind", "kind"),
    named("group", "group"),
    named("topic", "topic"),
    Column("ms", "cost", True),
    Column("success", _ok),
    Column("details", _details),
)


@click.command("trace", cls=Command)
@click.argument("message_id")
@click.option("--trace-topic", metavar="TOPIC", help="Topic of the traces.  [default: RMQ_SYS_TRACE_TOPIC]")
@click.pass_obj
def trace(session: Session, message_id: str, trace_topic: str | None) -> None:
    """Show what traced clients did with a message.

    MESSAGE_ID is its unique id, or one of its keys. Pub is a send; SubBefore and SubAfter are the start and end of a
    call of a listener.
    """
    from rocketpy.errors import TopicNotFoundError

    more = {} if trace_topic is None else {"trace_topic": trace_topic}
    with session.admin() as admin:
        try:
            found = session.partly(admin.messages.trace, message_id, **more)
        except TopicNotFoundError as error:
            raise TopicNotFoundError(
                f"the trace topic {error.topic} does not exist: no traced client has written to it yet; trace clients "
                "with the setting enable_msg_trace",
                topic=error.topic,
                tried=error.tried,
            ) from error
    session.output.rows(COLUMNS, map(_row, found), empty="no traced client has recorded this message")
