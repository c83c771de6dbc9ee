"""Driving: what brokers ask of a client's consumers: rebalance, reset offsets, report state, consume one message.

A broker may be faulty or hostile, so its requests are carried out only for groups that run in this client and topics
that they subscribe to, and answers hold no secrets. Plain pull consumers have no queues, and only report their state.
Plays the part of notifyConsumerIdsChanged, resetOffset, getConsumeStatus, getConsumerRunningInfo and
consumeMessageDirectly in ClientRemotingProcessor.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import trio

from rocketpy.client.roles import DrivenRole
from rocketpy.errors import BrokerError, MessageDecodeError
from rocketpy.logs import get_logger
from rocketpy.remoting.rounds import in_slices
from rocketpy.wire.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.group import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
)
from rocketpy.wire.headers.offset import GetConsumerStatusRequestHeader, ResetOffsetRequestHeader
from rocketpy.wire.message_codec import decode_record

if TYPE_CHECKING:
    from rocketpy.client.callbacks import Callbacks
    from rocketpy.client.roles import Driven, RoleTable
    from rocketpy.message import MessageExt
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand

__all__ = ["drive"]

logger = get_logger(__name__)


def drive(made: Callbacks, roles: RoleTable) -> None:
    """Register processors that pass brokers' requests on to the consumers of one client.

    Args:
        made: where to register them.
        roles: the client's producers and consumers.
    """
    driving = _Driving(roles)
    made.async_processors[RequestCode.RESET_CONSUMER_CLIENT_OFFSET] = driving.reset_offsets
    made.async_processors[RequestCode.GET_CONSUMER_RUNNING_INFO] = driving.running_info
    made.async_processors[RequestCode.CONSUME_MESSAGE_DIRECTLY] = driving.consume_directly
    made.processors[RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT] = driving.status
    made.processors[RequestCode.NOTIFY_CONSUMER_IDS_CHANGED] = driving.consumer_ids_changed


class _Driving:
    def __init__(self, roles: RoleTable) -> None:
        self._roles = roles
        self._one_at_a_time = trio.Lock()
        """Held by requests that take long: many at the same time would make each turn of the loop long."""
        self._last_noted = trio.Event()
        self._last_noted.set()

    def _find(self, group: str) -> Driven | None:
        role: object = self._roles.consumers.get(group)
        return role.driven if isinstance(role, DrivenRole) else None

    def _get(self, group: str) -> Driven:
        """What carries out requests for the consumer of a group.

        Raises:
            BrokerError: no consumer of that group runs in this client, or it carries out no requests.
        """
        found = self._find(group)
        if found is None:
            remark = f"The Consumer Group <{group[:255]}> not exist in this consumer"
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
        return found

    def consumer_ids_changed(self, connection: Connection, request: RemotingCommand) -> None:
        """A member joined or left a group: rebalance."""
        header = NotifyConsumerIdsChangedRequestHeader.from_ext(request.ext_fields)
        role = self._roles.consumers.get(header.consumer_group)
        if role is None:
            logger.debug(
                "%s sends a notice for the group %.256r, which this client does not have",
                connection.address,
                header.consumer_group,
            )
        else:
            role.rebalance_now()

    def reset_offsets(self, connection: Connection, request: RemotingCommand) -> Awaitable[None]:
        """Reset a consumer. Brokers expect no answer, not even to a failure.

        Of several resets the last one counts, so they are noted in the order in which they arrive.
        """
        before, noted = self._last_noted, trio.Event()
        self._last_noted = noted
        return self._reset_offsets(connection, request, before, noted)

    async def _reset_offsets(
        self, connection: Connection, request: RemotingCommand, before: trio.Event, noted: trio.Event
    ) -> None:
        try:
            await before.wait()
            driven = await self._note_reset(connection, request)
        finally:
            noted.set()
        if driven is not None:
            await driven.carry_out_resets()

    async def _note_reset(self, connection: Connection, request: RemotingCommand) -> Driven | None:
        """Pass a reset to the consumer, if it is in this client."""
        header = ResetOffsetRequestHeader.from_ext(request.ext_fields)
        driven = self._find(header.group)
        if driven is None:
            logger.info(
                "%s resets offsets of the group %.256r, which this client does not have",
                connection.address,
                header.group,
            )
            return None
        logger.info("%s resets offsets of %s on %.256r", connection.address, header.group, header.topic)
        body = ResetOffsetBody()
        if request.body:
            async with self._one_at_a_time:
                body = await in_slices(ResetOffsetBody.decode_steps(request.body))
        await driven.note_reset(header.topic, body.offset_table, sender=connection.address)
        return driven

    def status(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return a consumer's offsets of a topic; as in Java, none if the group is not in this client."""
        header = GetConsumerStatusRequestHeader.from_ext(request.ext_fields)
        driven = self._find(header.group)
        table = driven.offsets_of(header.topic) if driven is not None else {}
        return request.answer(body=GetConsumerStatusBody(message_queue_table=table).encode())

    async def running_info(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return the internal state of a consumer."""
        header = GetConsumerRunningInfoRequestHeader.from_ext(request.ext_fields)
        async with self._one_at_a_time:
            info = await self._get(header.consumer_group).running_info(with_stacks=header.jstack_enable)
            return request.answer(body=info.encode())

    async def consume_directly(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Pass one message to the listener of its topic, and return the result."""
        header = ConsumeMessageDirectlyResultRequestHeader.from_ext(request.ext_fields)
        driven = self._get(header.consumer_group)
        message = _message(request.body, header.broker_name or "")
        logger.info("%s has %s consume %r", connection.address, header.consumer_group, message)
        result = await driven.consume_directly(message)
        return request.answer(body=result.encode())


def _message(body: bytes, broker_name: str) -> MessageExt:
    """The one message of a request.

    Raises:
        BrokerError: it is damaged, or the request does not have exactly one message.
    """
    try:
        message = decode_record(body, broker_name=broker_name)
    except MessageDecodeError as exc:
        raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, f"the message is damaged: {exc}") from exc
    if message.store_size != len(body):
        remark = f"{len(body) - message.store_size} bytes follow the message: send exactly one message"
        raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark)
    return message
