"""rocketpy-store ls: files with their ranges, queues with their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.cli.output import Column, Output
from rocketpy.cli.text import escaped
from rocketpy_broker_sim.cli.store.opening import opened_store
from rocketpy_broker_sim.store.inspect.listing import file_rows, queue_rows

if TYPE_CHECKING:
    import argparse

HELP = "list the files and queues of a store"
_FILES = (
    Column("file", lambda row: escaped(row["path"])),  # whole: names that are cut tell nothing apart
    Column("size", "size", True),
    Column("begin", "begin", True),
    Column("end", "end", True),
)
_QUEUES = (
    Column("topic", lambda row: escaped(row["topic"])),
    Column("queue", "queueId", True),
    Column("min", "minOffset", True),
    Column("max", "maxOffset", True),
    Column("messages", "count", True),
    Column("files", "files", True),
    Column("size", "size", True),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What is special about this command."""
    parser.add_argument("--queues", action="store_true", help="leave the files out")


def run(options: argparse.Namespace) -> int:
    """List it."""
    output = Output(as_json=options.json)
    with opened_store(options) as layout:
        if not options.queues:
            output.rows(_FILES, file_rows(layout), empty="no files")
            output.note("")
        output.rows(_QUEUES, queue_rows(layout), empty="no queues")
        if layout.unclean:
            output.note("\nIts broker runs, or did not stop in order (there is an abort file).")
    return 0
