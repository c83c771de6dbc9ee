"""KeyQueries: the messages that have a key, or a unique id.

The index says where messages stand whose key has the same hash; the records are read from there. Plays the part of
queryMessage in DefaultMessageStore.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.errors import StoreCorruptError
from rocketpy.logs import get_logger
from rocketpy_broker_sim.store.disk.failure import translated
from rocketpy_broker_sim.store.put_result import KeyQueryResult
from rocketpy_broker_sim.store.steps import Steps, finish

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.store.index.key_index import KeyIndex
    from rocketpy_broker_sim.store.message_reads import MessageReads

__all__ = ["KeyQueries"]

MAX_QUERY_BYTES = 15 * 1024 * 1024
"""Of the records that a query gives: peers take no frame above 16 MiB."""
log = get_logger(__name__)


class KeyQueries:
    """Finds messages of one store by key.

    Args:
        storage: The directory, for the words of an error.
        index: Knows the positions.
        reads: Gives the record at a position.
    """

    def __init__(self, storage: Storage, index: KeyIndex, reads: MessageReads) -> None:
        self._storage = storage
        self._index = index
        self._reads = reads

    def query(self, topic: str, key: str, most: int, begin: int, end: int) -> KeyQueryResult:
        """The messages of a topic whose key, or unique id, has the hash of `key`; others may have that hash too.

        When they are more than one answer can hold, the newest ones.

        Args:
            topic: Their topic.
            key: The key.
            most: How many at most; the settings may lower it.
            begin: The earliest store time, ms.
            end: The latest one.

        Raises:
            StoreError: The disk refused.
            StoreCorruptError: Nothing was found but damaged messages; beside others they are left out, and logged.
        """
        return finish(self.query_steps(topic, key, most, begin, end))

    def query_steps(self, topic: str, key: str, most: int, begin: int, end: int) -> Steps[KeyQueryResult]:
        """`query` in steps: many messages may have the hash, or share its slot, and each is to be looked at."""
        with translated(self._storage, "looking for a key"):
            found = yield from self._index.find_steps(topic, key, most, begin, end)
        if not found.positions:
            return KeyQueryResult([], 0, 0)
        records = yield from self._newest(found.positions)
        return KeyQueryResult(records, found.last_timestamp, found.last_position)

    def _newest(self, positions: Iterable[int]) -> Steps[list[bytes]]:
        """The records at some positions, in the order of the log: as many of the last ones as one answer can hold."""
        records: list[bytes] = []
        total, damage = 0, None
        for position in sorted(positions, reverse=True):
            try:
                record = self._reads.read(position) or b""
            except StoreCorruptError as exc:
                log.error("a query skips a message: %s", exc)
                damage = exc
                continue
            total += len(record)
            if total > MAX_QUERY_BYTES:
                break
            records.append(record)
            yield
        if damage is not None and not records:
            raise damage
        return [record for record in reversed(records) if record]
