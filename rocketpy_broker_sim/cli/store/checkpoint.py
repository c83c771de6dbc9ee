"""rocketpy-store checkpoint: how far log, queues and index had reached the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.cli.output import Column, Output
from rocketpy.cli.text import cell, time_text
from rocketpy_broker_sim.cli.store.opening import opened_store
from rocketpy_broker_sim.store.inspect.checkpoint_view import checkpoint_row

if TYPE_CHECKING:
    import argparse

    from rocketpy_broker_sim.store.inspect.message_rows import Row

HELP = "show the checkpoint: how far log, queues and index had reached the disk"
_MEANINGS = {
    "physicMsgTimestamp": "the log is on the disk up to the message stored then",
    "logicsMsgTimestamp": "the queues, likewise",
    "indexMsgTimestamp": "the full index files, likewise",
    "masterFlushedOffset": "of a slave: how far its master had flushed",
    "confirmPhyOffset": "position that the replicas have confirmed",
    "flushedPosition": "the log is on the disk up to this position (ours alone)",
    "dispatchedPosition": "the queues have all records up to this position (ours alone)",
    "indexedPosition": "the index, likewise (ours alone)",
}
_COLUMNS = (Column("field", "field"), Column("value", "value", True), Column("time (UTC)", "time"), Column("", "means"))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Nothing is special about this command."""


def run(options: argparse.Namespace) -> int:
    """Show it."""
    output = Output(as_json=options.json)
    with opened_store(options) as layout:
        row = checkpoint_row(layout)
    if options.json:
        output.rows((), [row])
        return 0
    output.rows(_COLUMNS, [_line(row, field) for field in _MEANINGS])
    if not row["exists"]:
        output.note("\nThere is no checkpoint file; the store is recovered from the log alone.")
    elif row["flushedPosition"] is None:
        output.note("\nThe last broker was not ours, so there are no positions; recovery goes by the times.")
    return 0


def _line(row: Row, field: str) -> Row:
    value = row[field]
    time = time_text(value) if field.endswith("Timestamp") else ""
    return {"field": field, "value": cell(value), "time": time, "means": _MEANINGS[field]}
