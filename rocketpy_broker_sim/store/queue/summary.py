"""What a clean stop notes of its consume queues, so that the next start need not read a file of each.

It counts only after a clean stop, with the checkpoint that was written beside it, and while no folder has got or lost a
file since: another broker, or somebody who deleted queues, changes one of these. Where a queue has an extension nothing
is noted, as only its files say where that ends; nor while files of a deleted topic are left, which the next start then
finds and deletes. A storage that keeps no times of folders does without.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from rocketpy_broker_sim.store.queue.consume_queue import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketpy.seams import Storage
    from rocketpy_broker_sim.store.checkpoint import Checkpoint
    from rocketpy_broker_sim.store.queue.table import QueueTable

__all__ = ["PATH", "load_queues", "write_summary"]

PATH = "queues.json"


def write_summary(storage: Storage, queues: QueueTable, checkpoint: Checkpoint, log_start: int) -> None:
    """Note where all queues stand, when they have reached the disk and nothing changes them any more.

    Raises:
        OSError: The disk refused.
    """
    known = [queue for queue in queues if queue.row.files]
    changed = storage.modified_ms(FOLDER)
    if not changed or queues.is_leaving or any(queue.ext is not None for queue in known):
        if storage.exists(PATH):
            storage.unlink(PATH)
        return
    topics: dict[str, list[list[int]]] = {}
    for queue in known:
        queue.correct_min_offset(log_start)
        row = [queue.queue_id, storage.modified_ms(queue.row.folder), *queue.facts()]
        topics.setdefault(queue.topic, []).append(row)
    content = {
        "vouched": _vouched(checkpoint),
        "changed": changed,
        "fileSize": queues.file_size,
        "extended": queues.may_extend,
        "topics": {name: [storage.modified_ms(f"{FOLDER}/{name}"), rows] for name, rows in topics.items()},
    }
    text = json.dumps(content, separators=(",", ":")).encode()
    storage.write_bytes_atomic(PATH, b"%08x\n%b" % (zlib.crc32(text), text))


def load_queues(storage: Storage, queues: QueueTable, checkpoint: Checkpoint, *, unclean: bool) -> None:
    """Take the queues in: as they were noted, or from their files.

    Raises:
        OSError: The disk refused.
        StoreCorruptError: A file has another size than configured, or one is missing in between.
    """
    noted = None if unclean else _read(storage, checkpoint)
    # Without the setting it is not known whether units lead to an extension, and which of its entries they need.
    told = noted is not None and (noted.get("extended") or not queues.may_extend)
    # With another size of files their number and names would say something else; `load` refuses them.
    fits = noted is not None and noted.get("fileSize") == queues.file_size
    if noted is not None and told and fits and _is_untouched(storage, noted):
        for topic, queue_id, facts in _rows(noted):
            queues.open(topic, queue_id).restore(*facts)
        return
    queues.load(mend=unclean)


def _read(storage: Storage, checkpoint: Checkpoint) -> dict[str, Any] | None:
    """What was noted; None when it is not there, damaged, or older than the checkpoint."""
    try:
        head, _, text = storage.read_bytes(PATH).partition(b"\n")
    except FileNotFoundError:
        return None
    if head != b"%08x" % zlib.crc32(text):
        return None
    content: dict[str, Any] = json.loads(text)
    return content if content["vouched"] == _vouched(checkpoint) else None


def _rows(noted: dict[str, Any]) -> Iterator[tuple[str, int, list[int]]]:
    """Topic, number and facts of each queue."""
    for topic, (_, rows) in noted["topics"].items():
        for queue_id, _, *facts in rows:
            yield topic, queue_id, facts


def _vouched(checkpoint: Checkpoint) -> list[int | None]:
    return [checkpoint.flushed, checkpoint.dispatched, checkpoint.log_timestamp, checkpoint.queue_timestamp]


def _is_untouched(storage: Storage, noted: dict[str, Any]) -> bool:
    """Whether no folder has got or lost an entry."""
    try:
        return storage.modified_ms(FOLDER) == noted["changed"] and all(
            storage.modified_ms(f"{FOLDER}/{topic}") == changed
            and all(storage.modified_ms(f"{FOLDER}/{topic}/{row[0]}") == row[1] for row in rows)
            for topic, (changed, rows) in noted["topics"].items()
        )
    except FileNotFoundError:
        return False
