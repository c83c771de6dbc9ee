"""Requests of administrators about topics: create, change, delete, list. Plays a part of AdminBrokerProcessor.

An answer to a change is sent when the change is on the disk, and the name servers know of a topic that has changed: the
next that an administrator does may be to look there. Apache's broker registers before it answers, too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError, StoreError
from rocketpy.logs import get_logger, quote
from rocketpy.wire.bodies.registration import TopicConfigAndMappingSerializeWrapper
from rocketpy.wire.bodies.topics import CreateTopicListRequestBody, TopicConfig, TopicList
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import TopicFilterType
from rocketpy.wire.headers.admin import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetAllTopicConfigRequestHeader,
    GetAllTopicConfigResponseHeader,
    GetTopicConfigRequestHeader,
)
from rocketpy.wire.names import is_valid_topic, pop_retry_topic_v1, pop_retry_topic_v2
from rocketpy_broker_sim.broker.processors.checks import check_permission, check_queues, check_topic, invalid
from rocketpy_broker_sim.broker.processors.pages import copied, page
from rocketpy_broker_sim.broker.processors.pending import PendingAnswer
from rocketpy_broker_sim.broker.replies import without_body
from rocketpy_broker_sim.broker.tables.attributes import TOPIC_ATTRIBUTES, alter, parse_changes
from rocketpy_broker_sim.broker.tables.topics import MOST_LOGGED
from rocketpy_broker_sim.serving.encoding import encode_steps
from rocketpy_broker_sim.serving.slices import MUST_END

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.admin_views import TopicAdminView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["create_topic", "create_topics", "delete_topic", "get_all_topics", "get_system_topics", "get_topic"]

log = get_logger(__name__)


# --- create and change ---------------------------------------------------------------------------------


def create_topic(broker: TopicAdminView, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    """Create a topic, or change it."""
    header = CreateTopicRequestHeader.from_ext(request.ext_fields)
    filter_type = TopicFilterType.__members__.get(header.topic_filter_type)
    if filter_type is None:
        raise invalid(f"the filter type {header.topic_filter_type[:32]!r} is neither SINGLE_TAG nor MULTI_TAG")
    topic = TopicConfig(
        topic_name=header.topic,
        read_queue_nums=header.read_queue_nums,
        write_queue_nums=header.write_queue_nums,
        perm=header.perm,
        topic_filter_type=filter_type,
        topic_sys_flag=header.topic_sys_flag or 0,
        order=header.order,
        attributes=parse_changes(header.attributes or ""),
    )
    return _put(broker, connection, request, topic)


def create_topics(broker: TopicAdminView, connection: Connection, request: RemotingCommand) -> Steps:
    """Create or change several topics, all or none. A sliced processor: they are checked in steps, then put at once."""
    wanted = (yield from CreateTopicListRequestBody.decode_steps(request.body)).topic_config_list
    changed = []
    for topic in wanted:
        if _check(broker, topic):
            changed.append(topic)
        yield
    if not changed:
        return broker.persistence.answer_after_save(connection, request, request.answer())
    _log_changes(connection, changed)
    yield from broker.topics.put_steps(changed)
    pending = _answer_when_known(broker, connection, request, len(changed))
    for topic in changed:
        broker.new_topics.made(topic.topic_name, pending.done)
        yield
    return None


def _put(
    broker: TopicAdminView, connection: Connection, request: RemotingCommand, topic: TopicConfig
) -> RemotingCommand | None:
    if not _check(broker, topic):
        return broker.persistence.answer_after_save(connection, request, request.answer())
    _log_changes(connection, [topic])
    broker.topics.put(topic)
    pending = _answer_when_known(broker, connection, request, 1)
    broker.new_topics.made(topic.topic_name, pending.done)
    return None


def _answer_when_known(
    broker: TopicAdminView, connection: Connection, request: RemotingCommand, count: int
) -> PendingAnswer:
    """Answer when the change is on the disk and so many of its topics are known, whichever takes longer."""
    request = without_body(request)
    pending = PendingAnswer(partial(connection.send_answer, request))
    pending.add(count)

    def saved() -> None:
        answer = pending.answer(request.answer())
        if answer is not None:
            connection.send_answer(request, answer)

    broker.persistence.do_after_save(connection, request, saved)
    return pending


def _log_changes(connection: Connection, changed: list[TopicConfig]) -> None:
    names = ", ".join(topic.topic_name for topic in changed[:MOST_LOGGED])
    more = f" and {len(changed) - MOST_LOGGED} more" if len(changed) > MOST_LOGGED else ""
    log.info("%s changes topics: %s%s", quote(connection.address), names, more)


def _check(broker: TopicAdminView, topic: TopicConfig) -> bool:
    """Refuse a topic that is not valid. Returns whether it differs from what exists.

    Raises:
        BrokerError: its name, its number of queues or its permission is not acceptable, or it is a system topic.
    """
    name = topic.topic_name
    if not is_valid_topic(name):
        raise invalid("the topic is blank, too long, or has characters besides letters, digits and the four of '%|_-'")
    _check_not_system(broker, name)
    check_queues(topic.read_queue_nums, topic.write_queue_nums)
    check_permission(topic.perm)
    known = broker.topics.get(name)
    topic.attributes = alter(TOPIC_ATTRIBUTES, known.attributes if known else None, topic.attributes)
    return topic != known


def _check_not_system(broker: TopicAdminView, name: str) -> None:
    if broker.config.validate_system_topic_when_update_topic and broker.topics.is_system(name):
        raise invalid(f"The topic[{name}] is conflict with system topic.")


# --- delete --------------------------------------------------------------------------------------------


def delete_topic(broker: TopicAdminView, connection: Connection, request: RemotingCommand) -> Steps:
    """Delete a topic with its queues and the offsets in it. It is no error if it does not exist.

    A sliced processor, which runs to its end. Most of the offsets are deleted first: if the topic were created again
    before that, its groups would skip messages.

    Raises:
        BrokerError: the name is not acceptable, or the disk refused.
    """
    name = check_topic(DeleteTopicRequestHeader.from_ext(request.ext_fields).topic)
    _check_not_system(broker, name)
    log.info("%s deletes topic %s", quote(connection.address), name)
    yield MUST_END
    names = [name]
    for group in broker.offsets.groups_of(name):
        # The retry topics of groups that consume the topic by POP are deleted with it.
        names += [each for make in _POP_RETRY_TOPICS if (each := make(name, group)) in broker.topics]
        yield
    if not broker.store.may_delete(names):
        remark = (
            "too many topics were deleted whose messages are still in the log: wait until its old files are removed, "
            "or make fileReservedTime shorter"
        )
        raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
    for each in names:
        yield from broker.offsets.remove_topic_steps(each)
    # The store writes what is pending before it deletes: that must succeed or fail for those who put it, not here.
    broker.turn.finish()
    for each in names:
        broker.topics.delete(each)
        broker.offsets.remove_topic(each)
    yield from _delete_queues(broker, names)
    return broker.persistence.answer_after_save(connection, request, request.answer())


_POP_RETRY_TOPICS = (pop_retry_topic_v2, pop_retry_topic_v1)


def _delete_queues(broker: TopicAdminView, names: list[str]) -> Steps:
    try:
        yield from broker.store.delete_topics_steps(names)
    except StoreError as exc:
        log.error("the queues of topic %s could not be deleted: %s", names[0], exc)
        remark = "the queues of the topic could not be deleted: the disk of the broker is broken"
        raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark) from exc
    return None


# --- inspect -------------------------------------------------------------------------------------------


def get_all_topics(broker: TopicAdminView, connection: Connection, request: RemotingCommand) -> Steps:
    """All topics with their settings, or one page of them if the request asks for a page. A sliced processor."""
    header = GetAllTopicConfigRequestHeader.from_ext(request.ext_fields)
    table, version, fields = copied(broker.topics.all()), broker.topics.data_version, {}
    if (header.topic_seq, header.data_version, header.max_topic_num) != (None, None, None):
        fields = GetAllTopicConfigResponseHeader(total_topic_num=len(table)).to_ext()
        count = header.max_topic_num
        table = yield from page(table, version, start=header.topic_seq, version=header.data_version, count=count)
    wrapper = TopicConfigAndMappingSerializeWrapper(topic_config_table=table, data_version=version)
    body = yield from encode_steps(wrapper)
    return request.answer(ext_fields=fields, body=body)


def get_topic(broker: TopicAdminView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """The settings of one topic."""
    name = check_topic(GetTopicConfigRequestHeader.from_ext(request.ext_fields).topic)
    topic = broker.topics.get(name)
    if topic is None:
        return request.answer(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {name}")
    return request.answer(body=topic.encode())


def get_system_topics(broker: TopicAdminView, connection: Connection, request: RemotingCommand) -> Steps:
    """The names of the system topics of every broker, and of those that only this broker has. A sliced processor."""
    return request.answer(body=(yield from encode_steps(TopicList(topic_list=broker.topics.system_names()))))
