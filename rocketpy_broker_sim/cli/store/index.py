"""rocketpy-store index: the files of the key index, or one of them down to its last byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.cli.output import Column, Output
from rocketpy.cli.text import time_text
from rocketpy_broker_sim.cli.store.opening import opened_store
from rocketpy_broker_sim.store.index.file import ENTRY, SLOT
from rocketpy_broker_sim.store.inspect.index_shape import HEADER_SIZE
from rocketpy_broker_sim.store.inspect.index_view import IndexView, open_index

if TYPE_CHECKING:
    import argparse

HELP = "show the files of the key index, or one of them down to its last byte"
_FILES = (
    Column("file", "name"),
    Column("from (UTC)", lambda row: time_text(row["beginTimestamp"])),
    Column("to (UTC)", lambda row: time_text(row["endTimestamp"])),
    Column("first at", "beginPhyOffset", True),
    Column("last at", "endPhyOffset", True),
    Column("slots used", lambda row: f"{row['hashSlotCount']} of {row['slots']}", True),
    Column("entries", lambda row: f"{max(0, row['indexCount'] - 1)} of {row['entries'] - 1}", True),
)
_SLOTS = (Column("byte", "offset", True), Column("slot", "slot", True), Column("newest entry", "entry", True))
_ENTRIES = (
    Column("byte", "offset", True),
    Column("entry", "number", True),
    Column("slot", "slot", True),
    Column("hash", "keyHash", True),
    Column("position", "phyOffset", True),
    Column("seconds", "timeDiffSeconds", True),
    Column("previous", "previous", True),
    Column("topic", "topic"),
    Column("key", "key"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What is special about this command."""
    parser.add_argument("--file", metavar="NAME", help="show slots and entries of this file")


def run(options: argparse.Namespace) -> int:
    """Show it."""
    output = Output(as_json=options.json)
    with opened_store(options) as layout:
        if options.file is None:
            output.rows(_FILES, (open_index(layout, name).row() for name in layout.index), empty="no index files")
        else:
            _show(output, open_index(layout, options.file))
    return 0


def _show(output: Output, view: IndexView) -> None:
    output.rows(_FILES, [view.row()])
    output.note("")
    output.rows(_SLOTS, view.slot_rows())
    output.note("")
    output.rows(_ENTRIES, view.entry_rows())
    shape, header = view.shape, HEADER_SIZE
    used = shape.entries_at + (view.used + 1) * ENTRY.size
    output.note(
        f"\nbytes 0 to {header}: the header; to {shape.entries_at}: {shape.slots} slots of {SLOT.size}; to {used}: "
        f"{view.used} entries of {ENTRY.size} behind one that is never used; to {shape.size}: room for "
        f"{(shape.size - used) // ENTRY.size} more"
    )
