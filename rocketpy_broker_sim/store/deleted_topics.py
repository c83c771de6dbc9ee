"""Topics that were deleted, and up to where the log holds what is left of them: config/deletedTopics.json and .log.

The records of a deleted topic stay in the log until their file goes. After a crash, or when queues are rebuilt, they
would bring the topic back to life; so it is noted here before its queues are deleted. A topic of that name that is made
later is not meant. What is noted goes to the end of the .log, a line a topic; when that has grown longer than the
table, the table is written whole and the .log begins again. Apache's broker knows no such files and leaves them alone.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from rocketpy.errors import RemoteProtocolError
from rocketpy.logs import get_logger
from rocketpy.wire.lenient_json import parse_json

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.store.log.scan import LogRecord

__all__ = ["LINES_PATH", "MOST", "PATH", "DeletedTopics"]

FOLDER = "config"
PATH = f"{FOLDER}/deletedTopics.json"
LINES_PATH = f"{FOLDER}/deletedTopics.log"
_KEY = "deletedTopics"
_MAX_MEMBERS = 10_000_000
MOST = 200_000
"""Names that are kept: some 40 MB."""
_FEW = 256
"""So many lines are not worth writing the table whole."""

log = get_logger(__name__)


class DeletedTopics:
    """Position behind the last record that a topic had when it was deleted, by name."""

    def __init__(self, storage: Storage) -> None:
        """Nothing is read yet."""
        self._storage = storage
        self._ends: dict[bytes, int] = {}
        self._pruned_at = -1  # where the log began then
        self._lines = 0
        self._size = 0  # of the lines that are whole
        self._is_torn = False  # whether something else may stand behind them

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """(topic, position) of each."""
        return iter([(topic.decode(), end) for topic, end in self._ends.items()])

    def load(self) -> None:
        """Take over the files. What cannot be read is left out: those topics come back, and nothing is lost.

        Raises:
            OSError: The disk refused.
        """
        self._load_table()
        with suppress(FileNotFoundError):
            data = self._storage.read_bytes(LINES_PATH)
            for line in data.splitlines(keepends=True):
                found = _read(line)
                if found is None:  # a crash came while it was written, and so before its topic was deleted
                    self._is_torn = True
                    break
                self._ends[found[0]] = found[1]
                self._lines += 1
                self._size += len(line)

    def _load_table(self) -> None:
        try:
            data = self._storage.read_bytes(PATH)
        except FileNotFoundError:
            return
        try:
            found = parse_json(data, max_members=_MAX_MEMBERS)
        except RemoteProtocolError as exc:
            log.warning("%s cannot be read, deleted topics may reappear: %s", self._storage.describe(PATH), exc)
            return
        table = found.get(_KEY) if isinstance(found, dict) else None
        if isinstance(table, dict):
            self._ends = {topic.encode(): end for topic, end in table.items() if isinstance(end, int)}

    def is_gone(self, record: LogRecord) -> bool:
        """Whether a record is what is left of a deleted topic."""
        return bool(self._ends) and record.position < self._ends.get(record.topic, 0)

    def has_room(self, topics: Collection[str], begin: int) -> bool:
        """Whether topics may be noted; those that the log has no record of any more make room.

        Args:
            topics: Their names.
            begin: Where the log begins.
        """
        if len(self._ends) + len(topics) > MOST and begin != self._pruned_at:
            self._pruned_at = begin
            self._ends = {topic: end for topic, end in self._ends.items() if begin < end}
        new = sum(topic.encode() not in self._ends for topic in topics)
        return len(self._ends) + new <= MOST

    def note(self, topics: Iterable[str], begin: int, end: int) -> None:
        """Topics are about to be deleted; that has reached the disk when this returns.

        Args:
            topics: Their names.
            begin: Where the log begins.
            end: Where it ends now.

        Raises:
            OSError: The disk refused; nothing is noted.
        """
        if end <= begin:
            return  # there is no record of anything
        names = [topic.encode() for topic in topics]
        before = [(name, self._ends.get(name)) for name in names]
        self._ends.update(dict.fromkeys(names, end))
        try:
            if self._is_torn or self._lines + len(names) > max(_FEW, len(self._ends)):
                self._save(begin, end)
            else:
                self._add([_line(name, end) for name in names])
        except OSError:
            for name, known in before:
                if known is None:
                    self._ends.pop(name, None)
                else:
                    self._ends[name] = known
            raise

    def settle(self, begin: int, end: int) -> None:
        """Forget what the log has no record of any more, and leave alone what is about to be written.

        Args:
            begin: Where the log begins.
            end: Where it ends, after recovery. New records go there, though a crash took others that stood there.

        Raises:
            OSError: The disk refused.
        """
        if self._is_torn or any(not begin < known <= end for known in self._ends.values()):
            self._save(begin, end)

    def _add(self, lines: list[bytes]) -> None:
        """Write lines behind those that are there."""
        data = b"".join(lines)
        is_new = not self._size
        if is_new:
            self._storage.make_dir(FOLDER)
        self._is_torn = True
        file = self._storage.open(LINES_PATH, create=True)
        try:
            file.pwrite(data, self._size)
            file.fdatasync()
        except OSError:
            with suppress(OSError):
                file.truncate(self._size)
            raise
        finally:
            file.close()
        if is_new:
            self._storage.sync_dir(FOLDER)
        self._size += len(data)
        self._lines += len(lines)
        self._is_torn = False

    def _save(self, begin: int, end: int) -> None:
        """Write the table whole, and let the lines begin again."""
        ends = {topic: min(known, end) for topic, known in self._ends.items() if begin < min(known, end)}
        table = {topic.decode(): known for topic, known in ends.items()}
        self._storage.make_dir(FOLDER)
        self._storage.write_bytes_atomic(PATH, json.dumps({_KEY: table}, indent=1).encode())
        self._ends = ends
        if self._lines or self._is_torn:
            # Found again after a crash here they would say nothing new; what they said of before a torn tail of the log
            # is left out, so they are gone for good before anything is written there.
            with suppress(FileNotFoundError):
                self._storage.unlink(LINES_PATH)
            self._storage.sync_dir(FOLDER)
        self._lines = self._size = 0
        self._is_torn = False


def _line(topic: bytes, end: int) -> bytes:
    """One line: checksum, position, name."""
    text = b"%d %b" % (end, topic)
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _read(line: bytes) -> tuple[bytes, int] | None:
    """(topic, position) of a line; None when it is not whole."""
    crc, _, text = line.removesuffix(b"\n").partition(b" ")
    position, _, topic = text.partition(b" ")
    if not line.endswith(b"\n") or crc != b"%08x" % zlib.crc32(text) or not position.isdigit() or not topic:
        return None
    return topic, int(position)
