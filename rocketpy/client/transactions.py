"""Transactions on the wire: half messages, the requests that end transactions, and brokers' checks.

A half message is a copy of the user's message with a few more properties. Its end is a one-way request. Plays the
transaction part of DefaultMQProducerImpl, and of checkTransactionState in ClientRemotingProcessor.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from rocketpy.client.roles import AskedRole, TransactionQuestion
from rocketpy.errors import ConfigError, MessageDecodeError
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import Message, PropertyName
from rocketpy.remoting.hooks import hook_before
from rocketpy.results import LocalTransactionState
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.transaction import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from rocketpy.wire.message_codec import decode_record
from rocketpy.wire.message_id import offset_of_message_id
from rocketpy.wire.serialize import encode_command
from rocketpy.wire.sysflag import TRANSACTION_COMMIT, TRANSACTION_NONE, TRANSACTION_ROLLBACK
from rocketpy.wire.templates import EndTemplate

if TYPE_CHECKING:
    from rocketpy.client.attempt import RequestConnection
    from rocketpy.client.callbacks import Callbacks
    from rocketpy.client.roles import RoleTable
    from rocketpy.remoting.connection import Connection
    from rocketpy.results import SendResult
    from rocketpy.wire.codes import SerializeType

__all__ = ["EndFrames", "answer_of", "end_command", "end_of", "half_of", "pass_checks_on"]

log = get_logger(__name__)

_FLAGS = {
    LocalTransactionState.COMMIT: TRANSACTION_COMMIT,
    LocalTransactionState.ROLLBACK: TRANSACTION_ROLLBACK,
    LocalTransactionState.UNKNOWN: TRANSACTION_NONE,
}
_TIMES = frozenset(
    (
        PropertyName.DELAY,
        PropertyName.TIMER_DELAY_SEC,
        PropertyName.TIMER_DELAY_MS,
        PropertyName.TIMER_DELIVER_MS,
    )
)


def half_of(message: Message, group: str, unique_id: str) -> Message:
    """The half message of a message: a copy with a unique id, which all attempts of the send keep.

    Raises:
        ConfigError: the message has a delay or a time of delivery, or is not a Message.
    """
    if not isinstance(message, Message):
        raise ConfigError(f"expected a Message, got {message!r:.100}")
    if not _TIMES.isdisjoint(message.wire_properties):
        raise ConfigError(
            "a transactional message cannot have delay_level, delay or deliver_at, because it is delivered when the "
            "transaction commits: leave them out"
        )
    if type(message) is Message and not message.has_value:  # what `copy` does, in a tenth of the time
        half = Message.__new__(Message)
        half.topic, half.body, half.flag = message.topic, message.body, message.flag
    else:
        half = copy.copy(message)
    half.wire_properties = {
        **message.wire_properties,
        PropertyName.TRANSACTION_PREPARED: "true",
        PropertyName.PRODUCER_GROUP: group,
        PropertyName.UNIQUE_KEY: unique_id,
    }
    return half


# --- the end -----------------------------------------------------------------------------------------------


def end_of(
    half: Message, result: SendResult, state: LocalTransactionState, group: str, broker_name: str
) -> EndTransactionRequestHeader:
    """The header that tells a broker how a transaction has ended.

    Raises:
        ConfigError: the broker's answer to the send did not say where the half message is.
    """
    return EndTransactionRequestHeader(
        topic=half.topic,
        producer_group=group,
        tran_state_table_offset=result.queue_offset,
        commit_log_offset=offset_of_message_id(result.offset_message_id),
        commit_or_rollback=_FLAGS[state],
        from_transaction_check=False,
        msg_id=result.message_id,
        transaction_id=result.transaction_id or result.message_id,
        bname=broker_name,
    )


def answer_of(question: TransactionQuestion, state: LocalTransactionState, group: str) -> EndTransactionRequestHeader:
    """The header that answers a broker's check."""
    asked, message = question.header, question.message
    return EndTransactionRequestHeader(
        topic=message.topic,
        producer_group=group,
        tran_state_table_offset=asked.tran_state_table_offset,
        commit_log_offset=asked.commit_log_offset,
        commit_or_rollback=_FLAGS[state],
        from_transaction_check=True,
        msg_id=message.message_id,
        transaction_id=asked.transaction_id,
        bname=asked.bname,
    )


class EndFrames:
    """Encodes the ends of one producer's transactions, from templates where that means the same. Thread-safe.

    Requests that hooks look at need their header as fields, and so does one with a remark.
    """

    def __init__(self) -> None:
        self._templates: dict[tuple[str | None, str | None, SerializeType], EndTemplate] = {}

    def frame(self, connection: RequestConnection, header: EndTransactionRequestHeader, remark: str | None) -> bytes:
        """The one-way request, encoded for a connection of any kind. Hooks are called before it is encoded."""
        if connection.hooks or remark is not None:
            command = end_command(header, remark)
            command.opaque, command.serialize_type = connection.next_opaque(), connection.serialize_type
            hook_before(connection.hooks, connection.address, command)
            return encode_command(command)
        kind = header.topic, header.bname, connection.serialize_type
        template = self._templates.get(kind)
        if template is None:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[kind] = EndTemplate(header, serialize_type=connection.serialize_type)
        return template.frame(connection.next_opaque(), header)


_MOST_TEMPLATES = 1024


def end_command(header: EndTransactionRequestHeader, remark: str | None = None) -> RemotingCommand:
    """The one-way request; the remark says why the state is unknown."""
    command = RemotingCommand.oneway(RequestCode.END_TRANSACTION, header.to_ext())
    command.remark = remark
    return command


# --- checks --------------------------------------------------------------------------------------------------


def pass_checks_on(callbacks: Callbacks, roles: RoleTable) -> None:
    """Register the processor that passes brokers' checks to the producers of one client. The requests are one-way."""

    seldom = Seldom(log)

    def check_transaction_state(connection: Connection, request: RemotingCommand) -> None:
        header = CheckTransactionStateRequestHeader.from_ext(request.ext_fields)
        try:
            # The first message of the body, as in Java: a broker sends one, and others would only take their time.
            message = decode_record(request.body, broker_name=header.bname or "")
        except MessageDecodeError as exc:
            seldom.warning(
                connection.address,
                "%s checks a transaction with a message that cannot be read: %s",
                connection.address,
                exc,
            )
            return
        group = message.wire_properties.get(PropertyName.PRODUCER_GROUP, "")
        role: object = roles.producers.get(group)
        if not isinstance(role, AskedRole):
            log.debug(
                "%s checks a transaction of the group %.256r, which this client does not have",
                connection.address,
                group,
            )
        else:
            role.on_check(TransactionQuestion(connection.address, header, message))

    callbacks.processors[RequestCode.CHECK_TRANSACTION_STATE] = check_transaction_state
