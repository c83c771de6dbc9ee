"""What lies in a store: its files with their ranges, and its queues with their ends, as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketpy_broker_sim.config.store import UNIT_SIZE
from rocketpy_broker_sim.store.inspect.rows import translated
from rocketpy_broker_sim.store.inspect.units import QueueUnits, is_filler
from rocketpy_broker_sim.store.inspect.walk import LogWalk
from rocketpy_broker_sim.store.log import commit_log
from rocketpy_broker_sim.store.queue import consume_queue

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import StoreLayout
    from rocketpy_broker_sim.store.inspect.message_rows import Row

__all__ = ["file_rows", "log_end", "queue_rows"]

MAX_DEPTH = 4


def file_rows(layout: StoreLayout) -> Iterator[Row]:
    """Every file of a store: what it is part of, its size, and the range of positions that it holds."""
    end = log_end(layout, QueueUnits(layout))
    for file in [*layout.log.files, *layout.log.empty]:
        used = min(max(0, end - file.start), file.size)
        yield {"kind": "file", "path": file.path, "size": file.size, "begin": file.start, "end": file.start + used}
    for row in layout.queues.values():
        for file in [*row.files, *row.empty]:
            begin, stop = file.start // UNIT_SIZE, file.end // UNIT_SIZE
            yield {"kind": "file", "path": file.path, "size": file.size, "begin": begin, "end": stop}
    yield from _plain_rows(layout)


def _plain_rows(layout: StoreLayout) -> Iterator[Row]:
    """Files that hold no range of log or queues."""
    with translated(layout.storage, ""):
        names = layout.storage.list("")
    for name in names:
        if name not in (commit_log.FOLDER, consume_queue.FOLDER):
            yield from _below(layout, name, MAX_DEPTH)


def _below(layout: StoreLayout, path: str, depth: int) -> Iterator[Row]:
    """A file, or the files of a folder; not deeper than stores are, as links may go in circles."""
    storage = layout.storage
    with translated(storage, path):
        names = storage.list(path) if storage.is_dir(path) else None
    if names is None:
        yield {"kind": "file", "path": path, "size": layout.opened.size(path), "begin": None, "end": None}
    elif depth:
        for name in names:
            yield from _below(layout, f"{path}/{name}", depth - 1)


def queue_rows(layout: StoreLayout) -> Iterator[Row]:
    """Every queue with its first and last offset and what it takes."""
    units = QueueUnits(layout)
    for key, row in layout.queues.items():
        end = units.end(key)
        begin = units.live_begin(key, layout.log.start)
        yield {
            "kind": "queue",
            "topic": key[0],
            "queueId": key[1],
            "minOffset": begin,
            "maxOffset": end,
            "count": end - begin,
            "files": len(row.files) + len(row.empty),
            "size": sum(file.size for file in row.files),
        }


def log_end(layout: StoreLayout, units: QueueUnits) -> int:
    """Position behind the last record, found from the last one that a queue knows of."""
    known = 0
    for key in layout.queues:
        last = units.get(key, units.end(key) - 1)
        if last is not None and not is_filler(last):
            known = max(known, last[0] + last[1])
    file = layout.log.find(known)
    begin = known if file is not None else layout.log.start
    end = begin
    for entry in LogWalk(layout.log, begin, check_crc=False):
        if entry.kind in ("end", "damage"):
            break
        end = entry.position + entry.size
    return end
