"""The offsets of all groups and delay levels, compared and copied: GET_ALL_CONSUMER_OFFSET, GET_ALL_DELAY_OFFSET,
QUERY_CORRECTION_OFFSET and CLONE_GROUP_OFFSET. Plays a part of AdminBrokerProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError
from rocketpy.logs import get_logger, quote
from rocketpy.wire.bodies.offsets import DelayOffsetSerializeWrapper, QueryCorrectionOffsetBody
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.offset import CloneGroupOffsetRequestHeader, QueryCorrectionOffsetHeader
from rocketpy.wire.lenient_json import write_json
from rocketpy_broker_sim.broker.processors.checks import check_group, check_topic, invalid
from rocketpy_broker_sim.serving.encoding import append_parts, encode_steps, parts_of
from rocketpy_broker_sim.serving.slices import MUST_END, PAUSE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.admin_views import OffsetTablesView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["clone_offsets", "get_all_delay_offsets", "get_all_offsets", "query_correction"]

log = get_logger(__name__)

NO_CORRECTION = 2**63 - 1
"""The answer for a queue in which the compared group is behind all others."""
MOST_GROUPS = 1024
"""Groups that a request may leave out."""
_QUEUES_A_STEP = 256
_TOPICS_A_STEP = 256


# --- inspect -------------------------------------------------------------------------------------------


def get_all_offsets(broker: OffsetTablesView, connection: Connection, request: RemotingCommand) -> Steps:
    """The committed offsets of all groups, by "topic@group" and queue. A sliced processor.

    Each offset is that of the moment at which it is written.
    """
    offsets = broker.offsets
    found, separator = bytearray(b'{"dataVersion":%b,"groupTopicMap":{' % offsets.data_version.encode()), b""
    for group in offsets.groups():
        found += separator + write_json(group).encode() + b":"
        separator = b","
        topics = parts_of(offsets.each_topic_of(group), _TOPICS_A_STEP)
        yield from append_parts(found, b"[]", map(write_json, topics))
    found += b'},"offsetTable":{'
    separator = b""
    for key in list(offsets.table()):
        queues = offsets.table().get(key)
        if queues is None:  # deleted meanwhile
            continue
        found += separator + write_json(key).encode() + b":"
        separator = b","
        pairs = parts_of(list(queues.items()), _QUEUES_A_STEP)
        yield from append_parts(found, b"{}", (write_json(dict(part)) for part in pairs))
    found += b"}}"
    yield PAUSE  # before all of it is copied
    return request.answer(body=bytes(found))


def get_all_delay_offsets(
    broker: OffsetTablesView, connection: Connection, request: RemotingCommand
) -> RemotingCommand:
    """How far each delay level has been delivered."""
    table = broker.delay_offsets
    offsets = {level: table.get(level) for level in table.levels()}
    told = DelayOffsetSerializeWrapper(offset_table=offsets, data_version=table.data_version)
    return request.answer(body=told.encode())


def query_correction(broker: OffsetTablesView, connection: Connection, request: RemotingCommand) -> Steps:
    """The lowest offset of any group in each queue of a topic, unless it is that of the compared group.

    A sliced processor. Groups that the request leaves out are skipped; Apache's broker deletes their offsets. Offsets
    whose messages were deleted are skipped too.
    """
    header = QueryCorrectionOffsetHeader.from_ext(request.ext_fields)
    topic, compared = check_topic(header.topic), check_group(header.compare_group)
    found: dict[int, int] = {}
    for group in broker.offsets.groups_of(topic) - _left_out(header.filter_groups or ""):
        for count, (queue_id, offset) in enumerate(broker.offsets.queues(group, topic).items()):
            if offset >= broker.reads.min_offset(topic, queue_id):
                found[queue_id] = min(offset, found.get(queue_id, offset))
            if count % _QUEUES_A_STEP == 0:
                yield
    for queue_id, offset in broker.offsets.queues(compared, topic).items():
        if found.get(queue_id, 0) > offset:
            found[queue_id] = NO_CORRECTION
    yield
    return request.answer(body=(yield from encode_steps(QueryCorrectionOffsetBody(correction_offsets=found))))


def _left_out(text: str) -> set[str]:
    if text.count(",") >= MOST_GROUPS:
        raise invalid(f"the request leaves {text.count(',') + 1} groups out, {MOST_GROUPS} are allowed")
    return {name for name in text.split(",") if name}


# --- copy ----------------------------------------------------------------------------------------------


def clone_offsets(broker: OffsetTablesView, connection: Connection, request: RemotingCommand) -> Steps:
    """Copy the offsets of a group to another group, in one topic or in all in which the first has committed.

    A sliced processor, which runs to its end. Topics that do not exist are left out. So are those to which the first
    group, while connected, does not subscribe, unless the request says that it is offline.

    Raises:
        BrokerError: the target group does not exist and must not be created, or the table of offsets is full.
    """
    header = CloneGroupOffsetRequestHeader.from_ext(request.ext_fields)
    source, target = check_group(header.src_group), check_group(header.dest_group)
    topics: Iterable[str] = [check_topic(header.topic)] if header.topic else broker.offsets.each_topic_of(source)
    if broker.groups.find(target) is None:
        raise BrokerError.for_code(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"the group {target} does not exist")
    log.info("%s copies the offsets of group %s to %s", quote(connection.address), source, target)
    yield MUST_END
    for topic in topics:
        if topic in broker.topics and (header.offline or broker.consumers.may_consume(source, topic)):
            broker.offsets.clone(source, target, topic)
        yield
    return broker.persistence.answer_after_save(connection, request, request.answer())
