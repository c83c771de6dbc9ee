"""Requests that the broker passes on to a client of a group: GET_CONSUMER_RUNNING_INFO, CONSUME_MESSAGE_DIRECTLY and
INVOKE_BROKER_TO_GET_CONSUMER_STATUS.

The broker asks the client, and returns its answer. Only the typed fields of the request are passed on, because the
client must not see the signature of the administrator. Plays the part of callConsumer in AdminBrokerProcessor and of
getConsumeStatus in Broker2Client.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import BrokerError, ConfigError, RemoteProtocolError
from rocketpy.logs import get_logger, quote
from rocketpy.wire.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.group import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from rocketpy.wire.headers.offset import GetConsumerStatusRequestHeader
from rocketpy.wire.lenient_json import write_json
from rocketpy.wire.limits import REQUEST_LIMITS
from rocketpy.wire.message_id import decode_offset_message_id
from rocketpy_broker_sim.broker.processors.checks import check_client_id, check_group, check_topic, invalid
from rocketpy_broker_sim.broker.to_clients.calling import call_client
from rocketpy_broker_sim.serving.encoding import MOST_ENCODED, encode_steps
from rocketpy_broker_sim.serving.slices import in_slices

if TYPE_CHECKING:
    from collections.abc import Generator

    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.broker.tables.clients import ClientChannel
    from rocketpy_broker_sim.broker.views import CallView

__all__ = ["consume_directly", "get_consumer_status", "get_running_info"]

log = get_logger(__name__)

_V3_0_7, _V3_1_8 = 28, 62
"""Ordinals of V3_0_7_SNAPSHOT and V3_1_8_SNAPSHOT, the first versions whose clients can answer."""
_MOST_ASKED = 32
"""Clients of a group that are asked at the same time."""
_STATUS_SECONDS = 10.0
"""The timeout for asking all clients of a group; those that have not answered by then are left out."""
_BEGIN, _END = len(b'{"offsetTable":'), len(b"}")


# --- one client ----------------------------------------------------------------------------------------


def get_running_info(broker: CallView, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    """The state of a consumer, as the consumer reports it."""
    header = GetConsumerRunningInfoRequestHeader.from_ext(request.ext_fields)
    group, client_id = check_group(header.consumer_group), check_client_id(header.client_id)
    command = RemotingCommand(RequestCode.GET_CONSUMER_RUNNING_INFO, header.to_ext())
    return _call(broker, connection, request, group, client_id, command)


def consume_directly(broker: CallView, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    """Have a consumer consume one stored message, and return the outcome."""
    header = ConsumeMessageDirectlyResultRequestHeader.from_ext(request.ext_fields)
    group, client_id = check_group(header.consumer_group), check_client_id(header.client_id)
    record = _record(broker, header.msg_id)
    header.broker_name = broker.config.broker_name
    topic = broker.topics.get(header.topic) if header.topic else None
    if topic is not None:
        header.topic_sys_flag = topic.topic_sys_flag
    settings = broker.groups.get(group)
    if settings is not None:
        header.group_sys_flag = settings.group_sys_flag
    log.info(
        "%s has %s of %s consume %s", quote(connection.address), quote(client_id), group, quote(str(header.msg_id))
    )
    command = RemotingCommand(RequestCode.CONSUME_MESSAGE_DIRECTLY, header.to_ext(), record)
    return _call(broker, connection, request, group, client_id, command)


def _record(broker: CallView, message_id: str | None) -> bytes:
    """The stored bytes of a message.

    Raises:
        BrokerError: there is no message with that id.
    """
    try:
        offset = decode_offset_message_id(message_id or "").offset
    except (ConfigError, RemoteProtocolError, ValueError) as exc:
        raise invalid("the message id does not name a broker and a place in its log") from exc
    record = broker.reads.read(offset) if offset >= 0 else None
    if record is None:
        raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, f"there is no message at {offset} of the log")
    return record


def _call(
    broker: CallView,
    connection: Connection,
    request: RemotingCommand,
    group: str,
    client_id: str,
    command: RemotingCommand,
) -> RemotingCommand | None:
    member = broker.consumers.find_client(group, client_id)
    if member is None:
        return request.answer(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
    if member.version < _V3_1_8:
        remark = (
            f"The Consumer <{client_id}> of version {member.version} is too old: it must be V3_1_8_SNAPSHOT or newer"
        )
        return request.answer(ResponseCode.SYSTEM_ERROR, remark)

    async def call() -> RemotingCommand:
        told = await call_client(member, group, command)
        return request.answer(told.code, told.remark, told.ext_fields, told.body)

    return broker.calls.begin(connection, request, call)


# --- all clients of a group ----------------------------------------------------------------------------


def get_consumer_status(broker: CallView, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    """The offsets in a topic of all clients of a group, or of the one whose id is `clientAddr`."""
    header = GetConsumerStatusRequestHeader.from_ext(request.ext_fields)
    group, topic = check_group(header.group), check_topic(header.topic)
    members = broker.consumers.clients(group)
    if not members:
        return request.answer(ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{group}]")
    for member in members:
        if member.version < _V3_0_7:
            return request.answer(ResponseCode.SYSTEM_ERROR, f"the client {member} is too old to be asked")
    wanted = (header.client_addr or "").strip()
    if wanted:
        members = [member for member in members if member.client_id == wanted][:1]
    told = GetConsumerStatusRequestHeader(topic=topic, group=group)
    return broker.calls.begin(connection, request, partial(_gather, request, group, told, members))


async def _gather(
    request: RemotingCommand, group: str, header: GetConsumerStatusRequestHeader, members: list[ClientChannel]
) -> RemotingCommand:
    """Ask members, a few at a time. Members without an answer, or with an invalid one, are left out."""
    parts: list[bytes] = []
    places = trio.CapacityLimiter(_MOST_ASKED)

    @trio.lowlevel.enable_ki_protection
    async def ask(member: ClientChannel) -> None:
        async with places:
            command = RemotingCommand(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header.to_ext())
            answer = await call_client(member, group, command)
            if answer.code != ResponseCode.SUCCESS or not answer.body:
                log.info("%s does not report its offsets: %s", member, quote(answer.remark or ""))
                return
            try:
                part = await in_slices(_part(member, answer.body))
            except RemoteProtocolError as exc:
                log.info("%s reports invalid offsets: %s", member, exc)
                return
            if sum(map(len, parts)) + len(part) <= MOST_ENCODED:
                parts.append(part)

    with trio.move_on_after(_STATUS_SECONDS):
        async with trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(ask, member)
    return request.answer(body=b'{"consumerTable":{' + b",".join(parts) + b"}}")


def _part(member: ClientChannel, body: bytes) -> Generator[object, None, bytes]:
    """One client and its table, as written in the answer."""
    told = yield from GetConsumerStatusBody.decode_steps(body, limits=REQUEST_LIMITS)
    table = yield from encode_steps(ResetOffsetBody(offset_table=told.message_queue_table))
    return write_json(member.client_id).encode() + b":" + table[_BEGIN:-_END]
