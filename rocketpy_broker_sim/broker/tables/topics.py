"""The topics of one broker: topics.json, the topics made at boot, and those made by the first send or by a group.

Plays the part of TopicConfigManager. Names that come from a peer are checked here too, even if they were before.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from itertools import islice
from json.encoder import encode_basestring
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rocketpy.errors import BrokerError
from rocketpy.logs import get_logger
from rocketpy.wire.bodies.topics import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.names import (
    AUTO_CREATE_TOPIC,
    SCHEDULE_TOPIC,
    SYSTEM_TOPICS,
    TIMER_TOPIC,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
    is_system_topic,
    is_valid_stored_topic,
)
from rocketpy.wire.steps import run_steps
from rocketpy.wire.sysflag import Permission
from rocketpy_broker_sim.broker.tables.gathered import Gathered
from rocketpy_broker_sim.broker.tables.persist import (
    FILE_LIMITS,
    Entries,
    StoredTable,
    Written,
    pretty_pieces,
    pretty_text,
)
from rocketpy_broker_sim.serving.memory import TableRoom
from rocketpy_broker_sim.serving.slices import PAUSE

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import BrokerConfig

__all__ = ["READ_WRITE", "TopicTable", "size_of_topic"]

log = get_logger(__name__)

READ_WRITE = Permission.READ | Permission.WRITE
MOST_LOGGED = 20
"""Topics of one change that the log tells one by one."""
_TOPICS_A_STEP = 32
_ORDERED_A_STEP = 256
_BYTES_A_TOPIC = 320
_BYTES_AN_ATTRIBUTE = 192
_SCHEDULE_QUEUES = 18
_REVIVE_QUEUES = 8
_BENCHMARK_QUEUES = 1024


def size_of_topic(topic: TopicConfig) -> int:
    """Bytes that a topic is reckoned to take in the table."""
    size = _BYTES_A_TOPIC + len(topic.topic_name)
    for name, value in topic.attributes.items():
        size += _BYTES_AN_ATTRIBUTE + len(name) + len(value)
    return size


class TopicTable(StoredTable):
    """The topics by name.

    Args:
        config: of the broker.
        storage: where the file is.
        room: what they take counts there.

    Attributes:
        data_version: Rises with every change; name servers compare it.
    """

    file_name = "topics.json"

    def __init__(self, config: BrokerConfig, storage: Storage, room: TableRoom | None = None) -> None:
        super().__init__(storage)
        self._config = config
        self._topics: dict[str, TopicConfig] = {topic.topic_name: topic for topic in default_topics(config)}
        self._system = frozenset(self._topics)
        self._room = room or TableRoom()
        self._room.set(sum(map(size_of_topic, self._topics.values())))
        self.data_version = DataVersion()
        self._listeners: list[Callable[[list[str]], None]] = []

    # --- asking ----------------------------------------------------------------------------------------

    def get(self, name: str) -> TopicConfig | None:
        """The topic, None when there is none."""
        return self._topics.get(name)

    def all(self) -> Mapping[str, TopicConfig]:
        """All topics by name; a view, not to be kept."""
        return MappingProxyType(self._topics)

    def __contains__(self, name: str) -> bool:
        """Whether there is such a topic."""
        return name in self._topics

    def __len__(self) -> int:
        """How many topics there are."""
        return len(self._topics)

    def is_order(self, name: str) -> bool:
        """Whether the topic is declared to be consumed in order."""
        topic = self._topics.get(name)
        return topic is not None and topic.order

    def is_system(self, name: str) -> bool:
        """Whether the topic is a system topic: one that every broker has, or one of this broker."""
        return is_system_topic(name, self._system)

    def system_names(self) -> set[str]:
        """The names of all system topics, whether there are such topics here or not."""
        return set(self._system | SYSTEM_TOPICS)

    def subscribe(self, listener: Callable[[list[str]], None]) -> None:
        """Call a plain function, from now on, with the names of topics that were made, changed or deleted."""
        self._listeners.append(listener)

    def queues_read(self, name: str) -> int:
        """The number of read queues of a topic; 0 for a topic that does not exist."""
        topic = self._topics.get(name)
        return 0 if topic is None else topic.read_queue_nums

    # --- making topics on the way ----------------------------------------------------------------------

    def create_on_send(
        self, topic: str, default_topic: str, client_queues: int, sys_flag: int = 0
    ) -> TopicConfig | None:
        """The topic, made after the example of `default_topic` when it is new.

        Returns:
            None when it is new and the default topic is not there or may not be copied.

        Raises:
            BrokerError: the name is not allowed, or the table is full.
        """
        existing = self._topics.get(topic)
        if existing is not None:
            return existing
        model = self._topics.get(default_topic)
        if model is None or not self._may_copy(model):
            log.warning("topic %.256r was not made: the default topic %.256r is not a model", topic, default_topic)
            return None
        queues = max(0, min(client_queues, model.write_queue_nums))
        made = TopicConfig(
            topic_name=topic,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=model.perm & ~Permission.INHERIT,
            topic_sys_flag=sys_flag,
            topic_filter_type=model.topic_filter_type,
        )
        self.put(made)
        return made

    def _may_copy(self, model: TopicConfig) -> bool:
        # A file of an earlier run may hold TBW102 although topics are no longer made by sends.
        if model.topic_name == AUTO_CREATE_TOPIC and not self._config.auto_create_topic_enable:
            return False
        return Permission.is_inherited(model.perm)

    def create_retry(
        self, topic: str, queues: int, perm: int = READ_WRITE, sys_flag: int = 0, *, order: bool = False
    ) -> TopicConfig:
        """The retry or dead letter topic of a group, made when it is new; its order flag follows `order`.

        Raises:
            BrokerError: the name is not allowed, or the table is full.
        """
        existing = self._topics.get(topic)
        if existing is not None:
            if existing.order == order:
                return existing
            made = TopicConfig.from_json({**existing.to_json(), "order": order})
        else:
            made = TopicConfig(
                topic_name=topic,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=perm,
                topic_sys_flag=sys_flag,
                order=order,
            )
        self.put(made)
        return made

    # --- changing --------------------------------------------------------------------------------------

    def put(self, topic: TopicConfig) -> None:
        """Make or replace a topic.

        Raises:
            BrokerError: the name is not allowed, or the table is full.
        """
        self.put_all([topic])

    def put_all(self, topics: Iterable[TopicConfig]) -> None:
        """Make or replace several topics, all or none.

        Raises:
            BrokerError: a name is not allowed, or the table is full.
        """
        run_steps(self.put_steps(topics))

    def put_steps(self, topics: Iterable[TopicConfig]) -> Generator[Any, None, None]:
        """`put_all`, in steps: the topics are checked a few at a time, and all of them made in the last one.

        Raises:
            BrokerError: a name is not allowed, or the table is full.
        """
        gathered, version = Gathered(self._topics, size_of_topic), self.data_version
        for count, topic in enumerate(topics, 1):
            if not is_valid_stored_topic(topic.topic_name):
                raise BrokerError.for_code(ResponseCode.INVALID_PARAMETER, "the topic name is not allowed")
            gathered.add(topic.topic_name, topic)
            if count % _TOPICS_A_STEP == 0:
                yield
        yield PAUSE  # before all of them are made
        found = gathered.entries
        added, size = gathered.growth(is_disturbed=self.data_version is not version)
        held, most = len(self._topics), self._config.max_topics
        if added and held + added > most:
            remark = (
                f"the broker holds {held} topics, its own included, and may hold {most}; {added} more cannot be added: "
                "delete some, or raise maxTopics"
            )
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
        self._room.take(size)
        for name, topic in islice(found.items(), MOST_LOGGED):
            log.info("%s topic %s", "update" if name in self._topics else "create", topic.to_text())
        if len(found) > MOST_LOGGED:
            log.info("create or update %d more topics", len(found) - MOST_LOGGED)
        self._topics.update(found)
        self._changed(list(found))

    def declare_ordered(self, names: Iterable[str]) -> None:
        """Topics of these names are to be consumed in order; nothing here ever takes that back, as with Apache's."""
        run_steps(self.declare_ordered_steps(names))

    def declare_ordered_steps(self, names: Iterable[str]) -> Generator[None, None, None]:
        """`declare_ordered`, in steps. Each puts what it has changed: the topics may be others in the next."""
        left = iter(names)
        while part := list(islice(left, _ORDERED_A_STEP)):
            known = [self._topics[name] for name in part if name in self._topics]
            changed = [TopicConfig.from_json({**topic.to_json(), "order": True}) for topic in known if not topic.order]
            if changed:
                self.put_all(changed)
            yield

    def adopt(self, topic: TopicConfig) -> None:
        """Make a topic that has messages in the store, at the start: the broker's own, which no bound refuses."""
        former = self._topics.get(topic.topic_name)
        self._room.note(size_of_topic(topic) - (0 if former is None else size_of_topic(former)))
        self._topics[topic.topic_name] = topic
        self._changed([topic.topic_name])

    def delete(self, name: str) -> bool:
        """Forget a topic; whether it was there."""
        topic = self._topics.pop(name, None)
        if topic is None:
            return False
        self._room.note(-size_of_topic(topic))
        log.info("delete topic %s", name)
        self._changed([name])
        return True

    def touch(self) -> None:
        """Something that is told with every topic changed: the permission of the whole broker."""
        self._changed([])

    def _changed(self, names: list[str]) -> None:
        self.data_version = self.data_version.next_version()
        self.mark_changed()
        for listener in self._listeners:
            listener(names)

    # --- the file --------------------------------------------------------------------------------------

    def encode_steps(self) -> Generator[None, None, list[bytes]]:
        """The content of topics.json."""
        topics = list(self._topics.items())
        return pretty_pieces(
            {
                "dataVersion": self.data_version.to_json(),
                "topicConfigTable": Entries((name, _stored(topic)) for name, topic in topics),
            }
        )

    def decode(self, data: bytes) -> None:
        """Take over topics.json; topics made at boot that it lacks stay."""
        wrapper = TopicConfigSerializeWrapper.decode(data, limits=FILE_LIMITS)
        added = self._topics.keys() - wrapper.topic_config_table.keys()
        self._topics.update(wrapper.topic_config_table)
        self._room.set(sum(map(size_of_topic, self._topics.values())))
        self.data_version = wrapper.data_version
        if added:
            self._changed(sorted(added))  # or name servers would take it for the table that they know


def _stored(topic: TopicConfig) -> Written:
    """A topic as it stands in the file. The whole file is written when one topic changes, so this must be quick."""
    if topic.attributes:
        return Written(pretty_text(topic.to_json()))
    return Written(
        f'{{\n\t\t\t"attributes":{{}},\n\t\t\t"order":{"true" if topic.order else "false"},'
        f'\n\t\t\t"perm":{topic.perm:d},\n\t\t\t"readQueueNums":{topic.read_queue_nums:d},'
        f'\n\t\t\t"topicFilterType":"{topic.topic_filter_type.name}",'
        f'\n\t\t\t"topicName":{encode_basestring(topic.topic_name)},'
        f'\n\t\t\t"topicSysFlag":{topic.topic_sys_flag:d},\n\t\t\t"writeQueueNums":{topic.write_queue_nums:d}\n\t\t}}'
    )


def default_topics(config: BrokerConfig) -> list[TopicConfig]:
    """The topics that every broker has from its first moment."""
    cluster, name = config.broker_cluster_name, config.broker_name
    cluster_perm = READ_WRITE if config.cluster_topic_enable else 0
    broker_perm = READ_WRITE if config.broker_topic_enable else 0
    made = [
        _topic("SELF_TEST_TOPIC", 1),
        _topic("BenchmarkTest", _BENCHMARK_QUEUES),
        _topic(cluster, 16, Permission.INHERIT | cluster_perm),
        _topic(name, 1, Permission.INHERIT | broker_perm),
        _topic("OFFSET_MOVED_EVENT", 1),
        _topic(SCHEDULE_TOPIC, _SCHEDULE_QUEUES),
        _topic(f"{cluster}_REPLY_TOPIC", 1),
        _topic(f"rmq_sys_REVIVE_LOG_{cluster}", _REVIVE_QUEUES),
        _topic(f"rmq_sys_SYNC_BROKER_MEMBER_{name}", 1, Permission.INHERIT),
        _topic(TRANSACTION_HALF_TOPIC, 1),
        _topic(TRANSACTION_OP_TOPIC, 1),
    ]
    if config.store.timer_wheel_enable:
        made.append(_topic(TIMER_TOPIC, 1))
    if config.auto_create_topic_enable:
        made.append(_topic(AUTO_CREATE_TOPIC, config.default_topic_queue_nums, Permission.INHERIT | READ_WRITE))
    if config.trace_topic_enable:
        made.append(_topic(config.msg_trace_topic_name, 1))
    return made


def _topic(name: str, queues: int, perm: int = READ_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
