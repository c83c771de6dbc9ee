"""rocketpy-store check: do log, queues and index agree?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from rocketpy.cli.output import Column, Output
from rocketpy.cli.text import cut, escaped
from rocketpy_broker_sim.cli.store.opening import opened_store
from rocketpy_broker_sim.cli.store.progress import progress_bar
from rocketpy_broker_sim.store.inspect.check import Check, CheckCounts

if TYPE_CHECKING:
    import argparse

HELP = "check that log, queues and index agree; exit status 1 when something is damaged"
MAX_TEXT = 160
_COLUMNS = (
    Column("", "kind"),
    Column("file", lambda row: escaped(row["path"])),
    Column("position", "position", True),
    Column("in file", "offset", True),
    Column("size", "size", True),
    Column("what", lambda row: cut(escaped(row["reason"]), MAX_TEXT)),
)
_CLEAN, _DAMAGED = 0, 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Nothing is special about this command."""


def run(options: argparse.Namespace) -> int:
    """Check it."""
    output = Output(as_json=options.json)
    with opened_store(options) as layout, progress_bar("checking", layout.log.start, layout.log.end) as progress:
        check = Check(layout, progress=progress)
        shown = output.rows(_COLUMNS, (finding.row() for finding in check.findings()))
    if options.json:
        output.rows((), [{"kind": "summary", "clean": not check.counts.damage, **attrs.asdict(check.counts)}])
    elif shown:
        output.note("")
    output.note(_summary(check.counts))
    return _DAMAGED if check.counts.damage else _CLEAN


def _summary(counts: CheckCounts) -> str:
    went_over = (
        f"{counts.messages} messages in {counts.bytes} bytes of log, {counts.units} units of {counts.queues} queues, "
        f"{counts.index_entries} entries of {counts.index_files} index files"
    )
    if counts.damage:
        return f"DAMAGED, {counts.damage} findings: {went_over}"
    if counts.recovered:
        return f"clean but for what the next start recovers: {went_over}"
    return f"clean: {went_over}"
