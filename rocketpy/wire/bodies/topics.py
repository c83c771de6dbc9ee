"""What a topic is on a broker, and the version that every replicated table carries.

`TopicConfig` has two forms: JSON, and the text form inside compressed registrations. Plays the part of TopicConfig,
DataVersion and the wrappers around tables of topics.
"""

from __future__ import annotations

from rocketpy.errors import RemoteProtocolError
from rocketpy.seams import wall_ms
from rocketpy.wire.enums import TopicFilterType
from rocketpy.wire.json_body import Body, Int32, body, member
from rocketpy.wire.lenient_json import parse_json, write_json

__all__ = [
    "CreateTopicListRequestBody",
    "DataVersion",
    "LogicQueueMappingItem",
    "TopicConfig",
    "TopicConfigSerializeWrapper",
    "TopicList",
    "TopicQueueMappingDetail",
    "TopicQueueMappingInfo",
]


@body
class DataVersion(Body):
    """Which state of a table this is. Two peers have the same table when the three numbers agree."""

    state_version: int = 0
    timestamp: int = member(factory=wall_ms)
    counter: int = 0

    def next_version(self, state_version: int | None = None) -> DataVersion:
        """The version after a change made now; this one stays as it is."""
        state = self.state_version if state_version is None else state_version
        return DataVersion(state_version=state, timestamp=wall_ms(), counter=self.counter + 1)


@body
class TopicConfig(Body):
    """Settings of a topic on one broker."""

    topic_name: str
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = 6
    topic_filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] = member(factory=dict)

    def to_text(self, *, with_attributes: bool = True) -> str:
        """The text form: one line without `topic_sys_flag` and `order`, which it has never carried.

        Peers of 4.x refuse one that has attributes.
        """
        numbers = f"{self.read_queue_nums} {self.write_queue_nums} {self.perm}"
        text = f"{self.topic_name} {numbers} {self.topic_filter_type.name}"
        return f"{text} {write_json(dict(sorted(self.attributes.items())))}" if with_attributes else text

    @classmethod
    def from_text(cls, text: str) -> TopicConfig:
        """Read the text form; older peers leave the attributes out.

        Raises:
            RemoteProtocolError: it is not the text form of a topic.
        """
        parts = text.split(" ", 5)
        if len(parts) < 5 or parts[4] not in TopicFilterType.__members__:
            raise RemoteProtocolError(f"not the text form of a topic: {text!r:.200}")
        attributes = parse_json(parts[5], max_depth=4, max_members=4096) if parts[5:] and parts[5] else {}
        members = {"topicName": parts[0], "readQueueNums": parts[1], "writeQueueNums": parts[2], "perm": parts[3]}
        return cls.from_json({**members, "topicFilterType": parts[4], "attributes": attributes})


@body
class TopicConfigSerializeWrapper(Body):
    """All topics of a broker (4.x)."""

    topic_config_table: dict[str, TopicConfig] = member(factory=dict)
    data_version: DataVersion = member(factory=DataVersion)


@body
class CreateTopicListRequestBody(Body):
    """Topics to create or change."""

    topic_config_list: list[TopicConfig] = member(factory=list)


@body
class TopicList(Body):
    """Names of topics."""

    topic_list: set[str] = member(factory=set)
    broker_addr: str | None = None


@body
class TopicQueueMappingInfo(Body):
    """Which queues of a static topic a broker holds: what others need of it."""

    topic: str | None = None
    scope: str | None = "__global__"
    total_queues: Int32 = 0
    bname: str | None = None
    epoch: int = 0
    dirty: bool = False
    curr_id_map: dict[Int32, Int32] = member(factory=dict)


@body
class LogicQueueMappingItem(Body):
    """A stretch of a logical queue that one physical queue holds."""

    gen: Int32 = 0
    queue_id: Int32 = 0
    bname: str | None = None
    logic_offset: int = 0
    start_offset: int = 0
    end_offset: int = -1
    time_of_start: int = -1
    time_of_end: int = -1


@body
class TopicQueueMappingDetail(TopicQueueMappingInfo):
    """Which queues of a static topic a broker holds, with their history."""

    hosted_queues: dict[Int32, list[LogicQueueMappingItem]] = member(factory=dict)
