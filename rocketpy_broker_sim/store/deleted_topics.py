"""Topics that were deleted, and up to where the log holds what is left of them: config/deletedTopics.json.

The records of a deleted topic stay in the log until their file goes. After a crash, or when queues are built anew, they
would bring the topic back to life; so it is noted here before its queues are deleted. A topic of that name that is made
later is not meant. Apache's broker knows no such file and leaves it alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rocketpy.errors import RemoteProtocolError
from rocketpy.logs import get_logger
from rocketpy.wire.lenient_json import parse_json

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.store.log.scan import LogRecord

__all__ = ["PATH", "DeletedTopics"]

FOLDER = "config"
PATH = f"{FOLDER}/deletedTopics.json"
_KEY = "deletedTopics"
_MAX_MEMBERS = 10_000_000

log = get_logger(__name__)


class DeletedTopics:
    """Position behind the last record that a topic had when it was deleted, by name."""

    def __init__(self, storage: Storage) -> None:
        """Nothing is read yet."""
        self._storage = storage
        self._ends: dict[bytes, int] = {}

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """(topic, position) of each."""
        return iter([(topic.decode(), end) for topic, end in self._ends.items()])

    def load(self) -> None:
        """Take over the file. What cannot be read is left out: those topics come back, and nothing is lost.

        Raises:
            OSError: The disk refused.
        """
        try:
            data = self._storage.read_bytes(PATH)
        except FileNotFoundError:
            return
        try:
            found = parse_json(data, max_members=_MAX_MEMBERS)
        except RemoteProtocolError as exc:
            log.warning("%s cannot be read, deleted topics may come back: %s", self._storage.describe(PATH), exc)
            return
        table = found.get(_KEY) if isinstance(found, dict) else None
        if isinstance(table, dict):
            self._ends = {topic.encode(): end for topic, end in table.items() if isinstance(end, int)}

    def is_gone(self, record: LogRecord) -> bool:
        """Whether a record is what is left of a deleted topic."""
        return bool(self._ends) and record.position < self._ends.get(record.topic, 0)

    def note(self, topics: Iterable[str], begin: int, end: int) -> None:
        """Topics are about to be deleted; that has reached the disk when this returns.

        Args:
            topics: Their names.
            begin: Where the log begins.
            end: Where it ends now.

        Raises:
            OSError: The disk refused; nothing is noted.
        """
        before, self._ends = self._ends, {**self._ends, **{topic.encode(): end for topic in topics}}
        try:
            self._save(begin, end)
        except OSError:
            self._ends = before
            raise

    def settle(self, begin: int, end: int) -> None:
        """Forget what the log has no record of any more, and leave alone what is about to be written.

        Args:
            begin: Where the log begins.
            end: Where it ends, after recovery. New records go there, though a crash took others that stood there.

        Raises:
            OSError: The disk refused.
        """
        if any(not begin < known <= end for known in self._ends.values()):
            self._save(begin, end)

    def _save(self, begin: int, end: int) -> None:
        self._ends = {topic: min(known, end) for topic, known in self._ends.items() if begin < min(known, end)}
        table = {topic.decode(): known for topic, known in self._ends.items()}
        self._storage.make_dir(FOLDER)
        self._storage.write_bytes_atomic(PATH, json.dumps({_KEY: table}, indent=1).encode())
