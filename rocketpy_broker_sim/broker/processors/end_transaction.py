"""Ends of transactions: END_TRANSACTION, and RESUME_CHECK_HALF_MESSAGE for discarded ones.

The half message that a producer names is read from the log, and compared with the request and with the queue of the
half topic, so that a record forged within the body of a message is not accepted. A transaction ends once; ending it
again in the same way succeeds, whichever copy of its half message is named. The request is normally one-way. If it asks
for an answer, that is sent once both the message and the end are written. Plays the part of EndTransactionProcessor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NoReturn, cast

from rocketpy.errors import BrokerError, ConfigError, MessageDecodeError, StoreError
from rocketpy.logs import get_logger
from rocketpy.message import PropertyName
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.transaction import EndTransactionRequestHeader, ResumeCheckHalfMessageRequestHeader
from rocketpy.wire.message_id import decode_offset_message_id
from rocketpy.wire.names import TRANSACTION_DISCARD_TOPIC, TRANSACTION_HALF_TOPIC
from rocketpy.wire.sysflag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from rocketpy_broker_sim.broker.delays.again import readable
from rocketpy_broker_sim.broker.putting.put_pipeline import Put, StageOrder
from rocketpy_broker_sim.broker.putting.stored_records import stored_record
from rocketpy_broker_sim.broker.runs.commit_runs import CommitRuns, is_usual
from rocketpy_broker_sim.broker.transactions.half import (
    committed,
    copy_to_half_topic,
    immunity_ms,
    since_stored,
    transaction_key,
)
from rocketpy_broker_sim.broker.transactions.window import Mark
from rocketpy_broker_sim.broker.turn import RunProcessor
from rocketpy_broker_sim.store.put_result import PutMessageStatus

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.end_layout import LaidOutEnd
    from rocketpy_broker_sim.broker.putting.stored_records import StoredRecord
    from rocketpy_broker_sim.broker.replies import Replies
    from rocketpy_broker_sim.broker.views import TransactionView

__all__ = ["EndProcessor", "end_transaction", "resume_check"]

log = get_logger(__name__)

_MARKS = {TRANSACTION_COMMIT: Mark.COMMITTED, TRANSACTION_ROLLBACK: Mark.ROLLED_BACK}
_NOT_FOUND = "Find prepared transaction message failed"


class EndProcessor(RunProcessor):
    """Ends transactions.

    Args:
        broker: what it may reach.
    """

    is_apart = True

    def __init__(self, broker: TransactionView) -> None:
        self._broker = broker
        self._alone = partial(end_transaction, broker)
        self._commits = CommitRuns(broker, self._alone)

    def __call__(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """End one transaction."""
        return end_transaction(self._broker, connection, request)

    def take(self, connection: Connection, requests: Sequence[RemotingCommand]) -> Sequence[Replies]:
        """End several, in order. The replies to unusual ones are left to the turn."""
        replies: list[Replies] = []
        for usual, group in groupby(requests, is_usual):
            if usual:
                replies += self._commits.take(connection, cast("list[LaidOutEnd]", list(group)))
            else:
                for request in group:
                    self._broker.turn.run_alone(self._alone, connection, request)
        return replies


def end_transaction(
    broker: TransactionView, connection: Connection, request: RemotingCommand
) -> RemotingCommand | None:
    """Commit a transaction or roll it back. An end with an unknown state is not answered, as by Apache's broker."""
    header = EndTransactionRequestHeader.from_ext(request.ext_fields)
    mark = _MARKS.get(header.commit_or_rollback)
    if mark is None:
        log.debug("%s does not know the state of the transaction %.64r yet", connection.address, header.transaction_id)
        return None
    record = _half_message(broker, header)
    offset = _live_offset(broker, record, mark)
    if offset is None:
        return request.answer()  # it has already ended in this way
    if mark is Mark.COMMITTED:
        refusal = _commit(broker, record)
        if refusal is not None:
            return request.answer(*refusal)
    topic = record.properties.get(PropertyName.REAL_TOPIC, "")
    written = broker.ledger.end(offset, transaction_key(record.properties), mark, topic, at_once=not request.is_oneway)
    if written is not None and written.status is PutMessageStatus.PUT_OK:
        broker.turn.depends_on(written.end, wait_for_disk=True)
    return request.answer()


def _half_message(broker: TransactionView, header: EndTransactionRequestHeader) -> StoredRecord:
    """The half message that a producer names.

    Raises:
        BrokerError: it is not there, it is a different one, or the time of its producer is over.
    """
    record = _read(broker, header.commit_log_offset, TRANSACTION_HALF_TOPIC)
    if not header.from_transaction_check:
        immunity = immunity_ms(record.properties, broker.config.transaction_time_out)
        if immunity is not None and since_stored(broker.store.clock, record.head) > immunity:
            _refuse("the transaction took longer than its message allows: wait for the check", _ILLEGAL)
    if record.properties.get(PropertyName.PRODUCER_GROUP) != header.producer_group:
        _refuse("The producer group wrong")
    if record.head.queue_offset != header.tran_state_table_offset:
        _refuse("The transaction state table offset wrong")
    return record


_ILLEGAL = ResponseCode.ILLEGAL_OPERATION


def _read(broker: TransactionView, position: int, *topics: str) -> StoredRecord:
    """The message of one of these topics that begins at a position of the log.

    Raises:
        BrokerError: there is no such message.
    """
    try:
        data = broker.store.reads.read(position) if position >= 0 else None
        if data is not None:
            record = stored_record(data, encoded=False)  # the message of its outcome is encoded when it is put
            head, topic = record.head, record.message.topic
            if topic in topics and broker.store.reads.position(topic, head.queue_id, head.queue_offset) == position:
                return record
    except (MessageDecodeError, StoreError) as exc:
        raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, _NOT_FOUND) from exc
    return _refuse(_NOT_FOUND)


def _refuse(remark: str, code: ResponseCode = ResponseCode.SYSTEM_ERROR) -> NoReturn:
    raise BrokerError.for_code(code, remark)


def _live_offset(broker: TransactionView, record: StoredRecord, mark: Mark) -> int | None:
    """The current offset of the half message of a transaction; None if it has ended in the same way.

    Raises:
        BrokerError: it has ended in another way, or was discarded.
    """
    window, at = broker.ledger.window, record.head.queue_offset
    offset = window.live(transaction_key(record.properties), at)
    if offset is None:
        state = window.state(at)
        if state is not mark:
            _refuse(f"{_NOT_FOUND}: the transaction {_ENDED.get(state, _ENDED_SOMEHOW)}")
    return offset


_ENDED_SOMEHOW = "has ended, or was discarded"
_ENDED = {
    Mark.COMMITTED: "was committed",
    Mark.ROLLED_BACK: "was rolled back",
    Mark.ENDED: "has ended",
    Mark.DISCARDED: "was discarded after too many checks",
}


def _commit(broker: TransactionView, record: StoredRecord) -> tuple[int, str] | None:
    """Put the message for its consumers. Returns the refusal, None without one."""
    message = committed(record, broker.identity.store_host)
    if message is None:
        return ResponseCode.SYSTEM_ERROR, "the half message has no valid real topic"
    message.queue_id = readable(broker.topics.queues_read(message.topic), message.queue_id)
    put = Put(message=message, properties=record.properties)
    broker.pipeline.take([put], behind=StageOrder.HALF_MESSAGE)
    broker.turn.rests_on(put)
    put.check()
    return put.refusal


def resume_check(broker: TransactionView, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """Check a discarded transaction again; an administrator names its message."""
    header = ResumeCheckHalfMessageRequestHeader.from_ext(request.ext_fields)
    try:
        position = decode_offset_message_id(header.msg_id or "").offset
    except ConfigError as exc:
        remark = f"{header.msg_id!r:.100} is not the id of a message"
        raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark) from exc
    record = _read(broker, position, TRANSACTION_DISCARD_TOPIC)
    put = Put(message=copy_to_half_topic(record, checked=0))
    broker.pipeline.take([put], behind=StageOrder.DELAY_LEVEL)
    broker.turn.rests_on(put)
    put.check()
    if put.refusal is not None or put.result is None:
        return request.answer(*(put.refusal or (ResponseCode.SYSTEM_ERROR, "")))
    topic = record.properties.get(PropertyName.REAL_TOPIC, "")
    broker.ledger.resume(transaction_key(record.properties), put.result.queue_offset, topic)
    return request.answer()
