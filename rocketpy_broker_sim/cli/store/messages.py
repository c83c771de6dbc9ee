"""rocketpy-store messages: one queue joined with the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocketpy.cli.output import Column, Output
from rocketpy.cli.text import body_text, cut, time_text
from rocketpy_broker_sim.cli.store.arguments import add_body_option, add_queue_options, add_range_options, shown_bodies
from rocketpy_broker_sim.cli.store.opening import opened_store
from rocketpy_broker_sim.store.inspect.queue_view import QueueView

if TYPE_CHECKING:
    import argparse

HELP = "show the messages of a queue: its units joined with the log, bodies unpacked"


def _body(row: dict[str, Any]) -> str:
    return body_text(row) if row["kind"] == "message" else cut(f"({row['reason']})", 100)


COLUMNS = (
    Column("offset", "queueOffset", True),
    Column("position", "physicalOffset", True),
    Column("stored (UTC)", lambda row: time_text(row.get("storeTimestamp"))),
    Column("tags", "tags"),
    Column("keys", "keys"),
    Column("body", _body),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What is special about this command."""
    add_queue_options(parser)
    add_range_options(parser, "offset")
    add_body_option(parser)


def run(options: argparse.Namespace) -> int:
    """Show them."""
    with opened_store(options) as layout:
        view = QueueView(layout, options.topic, options.queue)
        rows = view.message_rows(options.begin, options.limit, max_body=shown_bodies(options))
        Output(as_json=options.json).rows(COLUMNS, rows, empty="no messages there")
    return 0
