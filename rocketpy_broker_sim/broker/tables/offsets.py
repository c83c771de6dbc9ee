"""The committed offsets of all groups: consumerOffset.json. Plays the part of ConsumerOffsetManager.

An offset is that of the next message to consume. Callers have checked that topics and groups exist.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError
from rocketpy.logs import Seldom, get_logger
from rocketpy.wire.bodies.offsets import ConsumerOffsetSerializeWrapper
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.broker.tables.ends import EndsAtStart
from rocketpy_broker_sim.broker.tables.persist import FILE_LIMITS, Entries, StoredTable, pretty_steps
from rocketpy_broker_sim.broker.tables.resets import PendingResets, count_new
from rocketpy_broker_sim.serving.memory import TableRoom

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["NOT_FOUND", "ConsumerOffsetTable", "size_of_offsets"]

log = get_logger(__name__)

NOT_FOUND = -1
_PAIRS_A_STEP = 32
_SEPARATOR = "@"
"""Separates topic and group in the keys of the file; no name can contain it."""
_BYTES_A_PAIR = 832
"""Estimated bytes of a topic and group with offsets, without their names, which are there twice."""
_BYTES_AN_OFFSET = 72


def size_of_offsets(key: str, count: int) -> int:
    """The estimated bytes of `count` offsets of a group on a topic."""
    return _BYTES_A_PAIR + 2 * len(key) + _BYTES_AN_OFFSET * count if count else 0


class ConsumerOffsetTable(StoredTable):
    """Offsets by topic, group and queue, and the positions that an administrator set for groups to take up.

    Args:
        config: of the broker.
        storage: where the file is.
        room: what they take counts there.

    Attributes:
        data_version: Rises with every so many commits.
        backward_commits: How many commits went back behind what was committed before.
    """

    file_name = "consumerOffset.json"

    def __init__(self, config: BrokerConfig, storage: Storage, room: TableRoom | None = None) -> None:
        super().__init__(storage)
        self._config = config
        self._offsets: dict[str, dict[int, int]] = {}
        self._topics: dict[str, dict[str, None]] = {}
        """The topics that each group has offsets for."""
        self._groups: dict[str, dict[str, None]] = {}
        """The groups with offsets for each topic. Both tables make deleting a topic or group quick."""
        self._count = 0
        self._commits = 0
        self.data_version = DataVersion()
        self.backward_commits = 0
        self._room = room or TableRoom()
        self._ends = EndsAtStart(self._room.note)
        self._resets = PendingResets(self._room)
        self._seldom = Seldom(log)

    # --- committing and asking -------------------------------------------------------------------------

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Commit an offset; as with Apache's broker, it may be lower than the last one, which is counted.

        Raises:
            BrokerError: the group has no offset on that queue, and the table is full.
        """
        queues = self._offsets.get(_key(topic, group))
        if queues is None or queue_id not in queues:
            self._make_room(group, topic, 1)
            queues = self._queues(group, topic)
        before = queues.get(queue_id, 0)
        queues[queue_id] = offset
        self.changed = True  # written with the next round: a commit a queue every 5 s is not worth a write each
        if offset < before:
            self.backward_commits += 1
            log.warning("group %s moved back on %s queue %d, offset %d to %d", group, topic, queue_id, before, offset)
        self._commits += 1
        if self._commits % max(1, self._config.consumer_offset_update_version_step) == 0:
            self.data_version = self.data_version.next_version()

    def commit_of_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Commit the offset that a pull carries. If the table is full, this is logged: the messages are answered."""
        try:
            self.commit(group, topic, queue_id, offset)
        except BrokerError as exc:
            self._seldom.warning(
                "refused", "an offset of group %s on %s that came with a pull is not committed: %s", group, topic, exc
            )

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """The committed offset of a group, or the one of a pending reset; NOT_FOUND if there is neither."""
        key = _key(topic, group)
        if self._config.use_server_side_reset_offset:
            reset = self._resets.get(key, queue_id)
            if reset is not None:
                return reset
        return self._offsets.get(key, {}).get(queue_id, NOT_FOUND)

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """The offsets of a group by queue."""
        return dict(self._offsets.get(_key(topic, group), {}))

    def groups(self) -> list[str]:
        """The groups that have committed."""
        return list(self._topics)

    def topics_of(self, group: str) -> set[str]:
        """The topics that a group has committed on."""
        return set(self._topics.get(group, ()))

    def each_topic_of(self, group: str) -> list[str]:
        """The topics that a group has committed on, in the order in which it did so first."""
        return list(self._topics.get(group, ()))

    def groups_of(self, topic: str) -> set[str]:
        """The groups that have committed on a topic."""
        return set(self._groups.get(topic, ()))

    def _check_count(self, added: int) -> None:
        most = self._config.max_consumer_offsets
        if added and self._count + added > most:
            remark = (
                f"the broker keeps {self._count} offsets of consumers, {most} are allowed: "
                "delete unused groups, or raise maxConsumerOffsets"
            )
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)

    def _make_room(self, group: str, topic: str, added: int, for_resets: int = 0) -> None:
        """Make room for more offsets, and for `for_resets` bytes of resets.

        Raises:
            BrokerError: there is no room; nothing is changed.
        """
        if not added and not for_resets:
            return
        self._check_count(added)
        key = _key(topic, group)
        count = len(self._offsets.get(key, ()))
        more = size_of_offsets(key, count + added) - size_of_offsets(key, count)
        self._room.take(more + for_resets)
        self._count += added

    def _queues(self, group: str, topic: str) -> dict[int, int]:
        """The offsets of a group by queue, to be changed by the caller, who has made room for new ones."""
        key = _key(topic, group)
        queues = self._offsets.get(key)
        if queues is None:
            queues = self._offsets[key] = {}
            self._note_key(topic, group)
        return queues

    def _note_key(self, topic: str, group: str) -> None:
        self._topics.setdefault(group, {})[topic] = None
        self._groups.setdefault(topic, {})[group] = None

    def clamp(self, end: Callable[[str, int], int]) -> None:
        """Move back groups whose offset is beyond the end of a queue that lost its last messages in a power loss.

        Otherwise they would skip the messages that take the places of the lost ones.

        Args:
            end: Gives the offset behind the last message of a topic's queue.
        """
        for key, queues in self._offsets.items():
            topic, group = _names(key)
            for queue_id, offset in queues.items():
                last = end(topic, queue_id)
                if offset > last:
                    log.warning(
                        "group %s had the offset %d of %s queue %d, beyond its end: set back to %d",
                        group,
                        offset,
                        topic,
                        queue_id,
                        last,
                    )
                    queues[queue_id] = last
                    self.changed = True

    # --- after an unclean stop ---------------------------------------------------------------------------

    def note_ends(self, end: Callable[[str, int], int]) -> None:
        """Note where the queues end, because they may have lost messages that groups have already got.

        Args:
            end: Returns the offset after the last message of a topic's queue.
        """
        self._ends.begin(self._offsets, lambda key, queue_id: end(_names(key)[0], queue_id))

    def is_lost(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Whether an offset is beyond what survived an unclean stop, and the group has not pulled the queue since."""
        return bool(self._ends) and self._ends.is_beyond(_key(topic, group), queue_id, offset)

    def note_pull(self, group: str, topic: str, queue_id: int) -> None:
        """Note that the group pulls from an offset that may be correct."""
        if self._ends:
            self._ends.heard(_key(topic, group), queue_id)

    # --- copying ---------------------------------------------------------------------------------------

    def clone(self, source: str, target: str, topic: str) -> None:
        """Let a group stand where another does on a topic; nothing changes if that one has not committed on it.

        Raises:
            BrokerError: the table is full.
        """
        offsets = self.queues(source, topic)
        if not offsets or source == target:
            return
        key = _key(topic, target)
        self._make_room(target, topic, count_new(offsets, self._offsets.get(key, {})))
        self._queues(target, topic).update(offsets)
        self._resets.remove(key)
        self.mark_changed()

    # --- resets ----------------------------------------------------------------------------------------

    def assign_resets(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        """Reset a group to these offsets, by queue. Answers to pulls report it; until a client takes it up, commits are
        ignored.

        All queues are reset at once, or none, so that no reader finds only half of them reset. The offsets are kept,
        as a topic may have 65,536 queues: the caller changes them no more.

        Raises:
            BrokerError: the table is full.
        """
        key = _key(topic, group)
        new = count_new(offsets, self._offsets.get(key, {}))
        self._make_room(group, topic, new, self._resets.growth(key, offsets))
        if offsets:
            self._queues(group, topic).update(offsets)
            self._resets.put(key, offsets)
            self.changed = True

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether the group has a pending reset in this queue."""
        return self._resets.get(_key(topic, group), queue_id) is not None

    def tell_reset(self, group: str, topic: str, queue_id: int, *, client: str, offset: int) -> int | None:
        """The position that a pull must be answered with because of a reset; None if the pull may proceed.

        Args:
            group: the group.
            topic: the topic.
            queue_id: the queue.
            client: the address that the pull comes from.
            offset: the offset that it asks for.
        """
        return self._resets.tell(_key(topic, group), queue_id, client, offset)

    # --- forgetting ------------------------------------------------------------------------------------

    def remove_topic(self, topic: str) -> None:
        """Forget all offsets on a topic."""
        self._remove([(topic, group) for group in self._groups.get(topic, ())])

    def remove_topic_steps(self, topic: str) -> Generator[None, None, None]:
        """`remove_topic`, in steps; what is committed between them may stay."""
        return self._remove_steps([(topic, group) for group in self._groups.get(topic, ())])

    def remove_group_steps(self, group: str) -> Generator[None, None, None]:
        """`remove_group`, in steps; what is committed between them may stay."""
        return self._remove_steps([(topic, group) for topic in self._topics.get(group, ())])

    def _remove_steps(self, pairs: list[tuple[str, str]]) -> Generator[None, None, None]:
        for begin in range(0, len(pairs), _PAIRS_A_STEP):
            stretch = pairs[begin : begin + _PAIRS_A_STEP]
            self._remove([pair for pair in stretch if _key(*pair) in self._offsets])
            yield

    def remove_group(self, group: str) -> None:
        """Forget all offsets of a group."""
        self._remove([(topic, group) for topic in self._topics.get(group, ())])

    def _remove(self, pairs: list[tuple[str, str]]) -> None:
        for topic, group in pairs:
            key = _key(topic, group)
            count = len(self._offsets.pop(key))
            self._count -= count
            self._room.note(-size_of_offsets(key, count))
            self._ends.forget(key)
            self._resets.remove(key)
            for table, name, other in ((self._topics, group, topic), (self._groups, topic, group)):
                names = table[name]
                del names[other]
                if not names:
                    del table[name]
        if pairs:
            self.mark_changed()

    # --- the file --------------------------------------------------------------------------------------

    def table(self) -> Mapping[str, Mapping[int, int]]:
        """All offsets as they travel: by "topic@group", then by queue."""
        return self._offsets

    def encode_steps(self) -> Generator[None, None, bytes]:
        """The content of consumerOffset.json. Offsets are those of the moment at which each is written."""
        keys, groups, version = list(self._offsets), list(self._topics.items()), self.data_version.to_json()
        yield
        offsets = ((key, Entries(_entries(self._offsets[key]))) for key in keys if key in self._offsets)
        members = {
            "dataVersion": version,
            "groupTopicMap": Entries((group, list(topics)) for group, topics in groups),  # Apache never reads it back
            "offsetTable": Entries(offsets),
        }
        return (yield from pretty_steps(members))

    def decode(self, data: bytes) -> None:
        """Take over consumerOffset.json."""
        wrapper = ConsumerOffsetSerializeWrapper.decode(data, limits=FILE_LIMITS)
        self._offsets = {key: queues for key, queues in wrapper.offset_table.items() if _SEPARATOR in key}
        self._count = sum(map(len, self._offsets.values()))
        self._topics, self._groups = {}, {}
        for topic, group in map(_names, self._offsets):
            self._note_key(topic, group)
        self.data_version = wrapper.data_version or self.data_version
        offsets = sum(size_of_offsets(key, len(queues)) for key, queues in self._offsets.items())
        self._room.set(offsets + self._resets.size_of_all())


def _entries(queues: dict[int, int]) -> Iterator[tuple[int, int]]:
    """What each queue has now: two lists take less memory than a copy of the table."""
    return zip(list(queues), list(queues.values()), strict=True)


def _key(topic: str, group: str) -> str:
    return f"{topic}{_SEPARATOR}{group}"


def _names(key: str) -> tuple[str, str]:
    topic, _, group = key.partition(_SEPARATOR)
    return topic, group
