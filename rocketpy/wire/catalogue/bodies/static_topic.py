"""Static topics (5.x), whose logical queues stay while the brokers that hold them change.

What routes and registrations say of them is in `rocketpy.wire.bodies.topics`.
"""

from __future__ import annotations

from rocketpy.wire.bodies.topics import (
    DataVersion,
    LogicQueueMappingItem,
    TopicConfig,
    TopicQueueMappingDetail,
)
from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = [
    "TopicConfigAndQueueMapping",
    "TopicQueueMappingOne",
    "TopicQueueMappingSerializeWrapper",
    "TopicRemappingDetailWrapper",
]


@body
class TopicConfigAndQueueMapping(TopicConfig):
    """Settings of a topic, and its queues if it is a static one."""

    mapping_detail: TopicQueueMappingDetail | None = None


@body
class TopicQueueMappingOne(Body):
    """One logical queue with its history."""

    topic: str | None = None
    bname: str | None = None
    global_id: Int32 | None = None
    items: list[LogicQueueMappingItem] | None = None
    mapping_detail: TopicQueueMappingDetail | None = None


@body
class TopicQueueMappingSerializeWrapper(Body):
    """All static topics of a broker. Also the file topicQueueMapping.json."""

    topic_queue_mapping_info_map: dict[str, TopicQueueMappingDetail] = member(factory=dict)
    data_version: DataVersion | None = None


@body
class TopicRemappingDetailWrapper(Body):
    """Which brokers give queues of a topic away, and which take them; an administrator keeps it in a file."""

    topic: str | None = None
    type: str | None = None
    """"CREATE_OR_UPDATE" or "REMAPPING"."""
    epoch: int = 0
    broker_config_map: dict[str, TopicConfigAndQueueMapping] = member(factory=dict)
    broker_to_map_in: set[str] = member(factory=set)
    broker_to_map_out: set[str] = member(factory=set)
