"""rocketpy-store commitlog: everything in the log in physical order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from rocketpy.cli.output import Column, Output
from rocketpy.cli.text import body_text, cell, cut, escaped
from rocketpy_broker_sim.cli.store.arguments import add_body_option, add_range_options, shown_bodies
from rocketpy_broker_sim.cli.store.opening import opened_store
from rocketpy_broker_sim.store.inspect.message_rows import entry_row
from rocketpy_broker_sim.store.inspect.units import QueueUnits
from rocketpy_broker_sim.store.inspect.walk import LogWalk

if TYPE_CHECKING:
    import argparse

    from rocketpy_broker_sim.store.inspect.layout import StoreLayout

HELP = "show the records of the log in physical order, with fillers, the end and what is damaged"


def _what(row: dict[str, Any]) -> str:
    if row["kind"] == "message":
        return cut(escaped(row["topic"]))
    return f"({row['kind']})"


def _content(row: dict[str, Any]) -> str:
    return body_text(row) if row["kind"] == "message" else cut(escaped(row.get("reason", "")), 100)


_COLUMNS = (
    Column("position", "physicalOffset", True),
    Column("size", lambda row: cell(row.get("storeSize", row.get("size"))), True),
    Column("topic", _what),
    Column("queue", "queueId", True),
    Column("offset", "queueOffset", True),
    Column("tags", "tags"),
    Column("keys", "keys"),
    Column("body", _content),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What is special about this command."""
    add_range_options(parser, "position of the log, where a record begins")
    add_body_option(parser)


def run(options: argparse.Namespace) -> int:
    """Show it."""
    with opened_store(options) as layout:
        rows = islice(_rows(layout, options.begin or 0, shown_bodies(options)), options.limit)
        Output(as_json=options.json).rows(_COLUMNS, rows, empty="nothing there")
    return 0


def _rows(layout: StoreLayout, begin: int, max_body: int | None) -> Iterator[dict[str, Any]]:
    units = QueueUnits(layout)
    for entry in LogWalk(layout.log, begin):
        pulled = False
        if entry.record is not None:
            key = (entry.record.topic.decode(), entry.record.queue_id)
            unit = units.get(key, entry.record.queue_offset)
            pulled = unit is not None and unit[0] == entry.position
        yield entry_row(entry, pulled=pulled, max_body=max_body)
