"""rocketpy-store consumequeue: the units of one queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocketpy.cli.output import Column, Output
from rocketpy_broker_sim.cli.store.arguments import add_queue_options, add_range_options
from rocketpy_broker_sim.cli.store.opening import opened_store
from rocketpy_broker_sim.store.inspect.queue_view import QueueView

if TYPE_CHECKING:
    import argparse

HELP = "show the units of a consume queue: where in the log its messages stand"


def _remark(row: dict[str, Any]) -> str:
    if row["filler"]:
        return "filler"
    return "address of filter bits" if row["extAddress"] else ""


_COLUMNS = (
    Column("offset", "queueOffset", True),
    Column("position", "physicalOffset", True),
    Column("size", "storeSize", True),
    Column("tags code", "tagsCode", True),
    Column("", _remark),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What is special about this command."""
    add_queue_options(parser)
    add_range_options(parser, "offset")


def run(options: argparse.Namespace) -> int:
    """Show it."""
    with opened_store(options) as layout:
        view = QueueView(layout, options.topic, options.queue)
        output = Output(as_json=options.json)
        output.rows(_COLUMNS, view.unit_rows(options.begin, options.limit))
        output.note(f"{view.end - view.begin} messages, offsets {view.begin} to {view.end} (not included)")
    return 0
