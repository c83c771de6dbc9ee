"""Topics and consumer groups on one broker: create, change, look at, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.client.call import ask, body_of, read_body, request
from rocketpy.errors import RequestCodeNotSupportedError, TopicNotExistError
from rocketpy.wire.bodies.groups import GroupForbidden, SubscriptionGroupConfig, SubscriptionGroupWrapper
from rocketpy.wire.bodies.topics import CreateTopicListRequestBody, TopicConfig, TopicConfigSerializeWrapper
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.admin import (
    CreateTopicListRequestHeader,
    CreateTopicRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    DeleteTopicRequestHeader,
    GetAllSubscriptionGroupRequestHeader,
    GetAllTopicConfigRequestHeader,
    GetTopicConfigRequestHeader,
    UpdateGroupForbiddenRequestHeader,
)

if TYPE_CHECKING:
    from rocketpy.remoting.pool import ConnectionPool

__all__ = [
    "all_groups",
    "all_topics",
    "create_group",
    "create_topic",
    "create_topics",
    "delete_group",
    "delete_topic",
    "group_readable",
    "topic_config",
]


async def create_topic(
    pool: ConnectionPool, address: str, config: TopicConfig, *, default_topic: str = "TBW102", timeout: float
) -> None:
    """Create a topic on a broker, or change it. Name servers learn of it from the broker.

    Raises:
        BrokerError: the broker refuses: a name that is not allowed, a slave.
        TransportError, RequestTimeoutError: it does not answer.
    """
    header = CreateTopicRequestHeader(
        topic=config.topic_name,
        default_topic=default_topic,
        read_queue_nums=config.read_queue_nums,
        write_queue_nums=config.write_queue_nums,
        perm=config.perm,
        topic_filter_type=config.topic_filter_type.name,
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
        attributes=_attributes(config.attributes) or None,
    )
    command = request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    await ask(pool, address, command, timeout=timeout, doing=f"creating the topic {config.topic_name}")


async def create_topics(pool: ConnectionPool, address: str, configs: Iterable[TopicConfig], *, timeout: float) -> None:
    """Create or change several topics on a broker in one request; all or none (5.x).

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    body = CreateTopicListRequestBody(topic_config_list=list(configs))
    command = request(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, CreateTopicListRequestHeader(), body.encode())
    await ask(pool, address, command, timeout=timeout, doing=f"creating {len(body.topic_config_list)} topics")


async def delete_topic(pool: ConnectionPool, address: str, topic: str, *, timeout: float) -> None:
    """Delete a topic and its queues on a broker.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic=topic))
    await ask(pool, address, command, timeout=timeout, doing=f"deleting the topic {topic}")


async def topic_config(pool: ConnectionPool, address: str, topic: str, *, timeout: float) -> TopicConfig | None:
    """The settings of a topic on a broker, None when the broker does not hold it.

    Brokers of 4.x tell the settings of all topics alone.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = request(RequestCode.GET_TOPIC_CONFIG, GetTopicConfigRequestHeader(topic=topic))
    doing = f"asking for the topic {topic}"
    try:
        answer = await ask(pool, address, command, timeout=timeout, doing=doing)
    except TopicNotExistError:
        return None
    except RequestCodeNotSupportedError:
        return (await all_topics(pool, address, timeout=timeout)).topic_config_table.get(topic)
    return body_of(TopicConfig, answer, address)


async def all_topics(pool: ConnectionPool, address: str, *, timeout: float) -> TopicConfigSerializeWrapper:
    """The settings of all topics on a broker.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = request(RequestCode.GET_ALL_TOPIC_CONFIG, GetAllTopicConfigRequestHeader())
    answer = await ask(pool, address, command, timeout=timeout, doing="asking for all topics")
    return await read_body(TopicConfigSerializeWrapper, answer, address)


async def create_group(pool: ConnectionPool, address: str, config: SubscriptionGroupConfig, *, timeout: float) -> None:
    """Create a consumer group on a broker, or change it.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, config.encode())
    await ask(pool, address, command, timeout=timeout, doing=f"creating the group {config.group_name}")


async def delete_group(
    pool: ConnectionPool, address: str, group: str, *, clean_offset: bool = False, timeout: float
) -> None:
    """Delete a consumer group on a broker.

    Args:
        clean_offset: forget where it stood, too.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    # 4.x knows the switch under another name.
    header = DeleteSubscriptionGroupRequestHeader(
        group_name=group, clean_offset=clean_offset, remove_offset=clean_offset
    )
    command = request(RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
    await ask(pool, address, command, timeout=timeout, doing=f"deleting the group {group}")


async def all_groups(pool: ConnectionPool, address: str, *, timeout: float) -> SubscriptionGroupWrapper:
    """The settings of all consumer groups on a broker.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GetAllSubscriptionGroupRequestHeader())
    answer = await ask(pool, address, command, timeout=timeout, doing="asking for all groups")
    return await read_body(SubscriptionGroupWrapper, answer, address)


async def group_readable(
    pool: ConnectionPool, address: str, group: str, topic: str, readable: bool, *, timeout: float
) -> bool:
    """Set whether a group may read a topic on a broker, and return whether it may now.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    header = UpdateGroupForbiddenRequestHeader(group=group, topic=topic, readable=readable)
    command = request(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking whether {group} may read {topic}")
    return body_of(GroupForbidden, answer, address).readable is not False


def _attributes(attributes: dict[str, str]) -> str:
    """Attributes as a request carries them: "+name=value", joined by commas; a sign that is there is kept."""
    return ",".join(
        f"{name if name[:1] in '+-' else '+' + name}={value}" if value or name[:1] != "-" else name
        for name, value in attributes.items()
    )
