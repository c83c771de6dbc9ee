"""Which queues of which topics the brokers hold. What grows with the number of topics is done in steps.

A broker holds a topic when `held` says so. Where it does not, queues may still stand in the table for a moment: a
broker with 50,000 topics is forgotten at once, and swept up in steps between which others read. Plays the part of
topicQueueTable and topicQueueMappingInfoTable in RouteInfoManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from rocketpy.wire.bodies.route import QueueData
from rocketpy.wire.sysflag import Permission

if TYPE_CHECKING:
    from rocketpy.wire.bodies.topics import TopicConfig, TopicQueueMappingInfo

__all__ = [
    "TOPICS_A_STEP",
    "QueueTable",
    "Steps",
    "may_read",
    "may_read_and_write",
    "queues_of",
    "weight_of_mapping",
    "weight_of_topic",
]

T = TypeVar("T")
Steps = Generator[None, None, T]

TOPICS_A_STEP = 64
"""Topics that are seen to between two yields."""
_SHARED_AT_ONCE = 1024
"""Settings of queues of a broker that are kept once for all topics that share them."""
_BYTES_A_TOPIC = 448
_BYTES_A_MAPPING = 512
_BYTES_A_MAPPED_QUEUE = 96


def weight_of_topic(name: str) -> int:
    """Bytes that a topic of a broker is reckoned to take."""
    return _BYTES_A_TOPIC + len(name)


def weight_of_mapping(mapping: TopicQueueMappingInfo) -> int:
    """Bytes that the mapping of a static topic is reckoned to take."""
    names = len(mapping.topic or "") + len(mapping.scope or "") + len(mapping.bname or "")
    return _BYTES_A_MAPPING + names + _BYTES_A_MAPPED_QUEUE * len(mapping.curr_id_map)


def queues_of(broker_name: str, config: TopicConfig, *, read_only: bool) -> QueueData:
    """The queues that a topic has at a broker."""
    return QueueData(
        broker_name=broker_name,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=may_read(config.perm) if read_only else config.perm,
        topic_sys_flag=config.topic_sys_flag,
    )


class QueueTable:
    """The tables.

    Attributes:
        queues: Topic -> broker name -> its queues there. Those of one broker share their value where they are alike:
            put another in its place to change one.
        held: Broker name -> the topics that it holds.
        mappings: Topic -> broker name -> which queues of a static topic it holds.
        bytes_of: Broker name -> what its topics are reckoned to take.
        bytes: The same for all brokers.
    """

    def __init__(self) -> None:
        self.queues: dict[str, dict[str, QueueData]] = {}
        self.held: dict[str, set[str]] = {}
        self.mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        self.bytes_of: Counter[str] = Counter()
        self.bytes = 0
        self._shared: dict[str, dict[tuple[int, int, int, int], QueueData]] = {}

    # --- asking ----------------------------------------------------------------------------------------

    def holds(self, broker_name: str, topic: str) -> bool:
        """Whether a broker holds a topic."""
        return topic in self.held.get(broker_name, ())

    def holders(self, topic: str, names: Iterable[str] | None = None) -> dict[str, QueueData]:
        """The queues of a topic by the name of the broker, at all or at some of them."""
        found = self.queues.get(topic, {})
        return {name: found[name] for name in (found if names is None else names) if self.holds(name, topic)}

    def mappings_of(self, topic: str, names: Iterable[str]) -> dict[str, TopicQueueMappingInfo] | None:
        """The mappings of a static topic at brokers that hold it; None when it is none."""
        found = self.mappings.get(topic)
        return None if found is None else {name: found[name] for name in names if name in found}

    def topics(self) -> Iterator[tuple[str, QueueData]]:
        """Every topic that a broker holds, with the queues at the first one; others may change the table meanwhile."""
        held = self.held
        for topic, by_broker in list(self.queues.items()):
            for name, queue in by_broker.items():
                if topic in held.get(name, ()):
                    yield topic, queue
                    break

    # --- changing --------------------------------------------------------------------------------------

    def put(self, topic: str, queue: QueueData) -> None:
        """A broker holds a topic, with these queues."""
        name = queue.broker_name
        held = self.held.setdefault(name, set())
        if topic not in held:
            held.add(topic)
            self._weigh(name, weight_of_topic(topic))
            mappings = self.mappings.get(topic)
            if mappings is not None:
                mappings.pop(name, None)  # one that was not swept up yet
        shared = self._shared.setdefault(name, {})
        key = (queue.read_queue_nums, queue.write_queue_nums, queue.perm, queue.topic_sys_flag)
        found = shared.get(key)
        if found is None:
            found = queue
            if len(shared) < min(_SHARED_AT_ONCE, len(held)):  # those of before a change stay: never more than topics
                shared[key] = queue
        self.queues.setdefault(topic, {})[name] = found

    def put_mapping(self, broker_name: str, topic: str, mapping: TopicQueueMappingInfo) -> None:
        """A broker holds these queues of a static topic; it holds the topic."""
        mappings = self.mappings.setdefault(topic, {})
        former = mappings.get(broker_name)
        self._weigh(broker_name, weight_of_mapping(mapping) - (0 if former is None else weight_of_mapping(former)))
        mappings[broker_name] = mapping

    def remove(self, topic: str, broker_name: str) -> None:
        """A broker does not hold a topic any more; fine when it did not."""
        held = self.held.get(broker_name)
        if held is not None and topic in held:
            held.discard(topic)
            mapping = self.mappings.get(topic, {}).get(broker_name)
            weight = weight_of_topic(topic) + (0 if mapping is None else weight_of_mapping(mapping))
            self._weigh(broker_name, -weight)
        self._sweep(topic, broker_name)

    def set_perm(self, topic: str, broker_name: str, perm: int) -> None:
        """Change what may be done with the queues of a topic at a broker, which holds it."""
        queue = self.queues[topic][broker_name]
        if queue.perm != perm:
            changed = QueueData(
                broker_name=broker_name,
                read_queue_nums=queue.read_queue_nums,
                write_queue_nums=queue.write_queue_nums,
                perm=perm,
                topic_sys_flag=queue.topic_sys_flag,
            )
            self.put(topic, changed)

    def _weigh(self, broker_name: str, change: int) -> None:
        self.bytes_of[broker_name] += change
        self.bytes += change

    def _sweep(self, topic: str, broker_name: str) -> None:
        _drop(self.queues, topic, broker_name)
        _drop(self.mappings, topic, broker_name)

    # --- in steps --------------------------------------------------------------------------------------

    def forget(self, broker_name: str) -> Steps[None]:
        """A broker holds nothing any more, from now on; the steps sweep up after it."""
        names = self.held.pop(broker_name, set())
        self.bytes -= self.bytes_of.pop(broker_name, 0)
        self._shared.pop(broker_name, None)
        return self._forget(broker_name, names)

    def _forget(self, broker_name: str, names: set[str]) -> Steps[None]:
        for count, topic in enumerate(list(names), 1):
            if not self.holds(broker_name, topic):  # it may have come back
                self._sweep(topic, broker_name)
            names.discard(topic)
            if count % TOPICS_A_STEP == 0:
                yield

    def remove_others(self, broker_name: str, kept: Container[str]) -> Steps[None]:
        """A broker holds none but these topics."""
        for count, topic in enumerate(list(self.held.get(broker_name, ())), 1):
            if topic not in kept:
                self.remove(topic, broker_name)
            if count % TOPICS_A_STEP == 0:
                yield

    def change_perms(self, broker_name: str, change: Callable[[int], int], wanted: Callable[[], bool]) -> Steps[int]:
        """Change what may be done with all queues of a broker, as long as that is wanted. Returns how many it has."""
        names = list(self.held.get(broker_name, ()))
        for count, topic in enumerate(names, 1):
            if not wanted():
                break
            if self.holds(broker_name, topic):
                self.set_perm(topic, broker_name, change(self.queues[topic][broker_name].perm))
            if count % TOPICS_A_STEP == 0:
                yield
        return len(names)


def _drop(table: dict[str, dict[str, T]], topic: str, broker_name: str) -> None:
    by_broker = table.get(topic)
    if by_broker is not None:
        by_broker.pop(broker_name, None)
        if not by_broker:
            del table[topic]


def may_read(perm: int) -> int:
    """The permission without writing."""
    return perm & ~Permission.WRITE


def may_read_and_write(perm: int) -> int:
    """Both, whatever else it was."""
    return Permission.READ | Permission.WRITE
