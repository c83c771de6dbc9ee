"""Taking messages: SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE. Plays the part of SendMessageProcessor.

This is the hottest path of the broker. The requests that a connection brings at once go through the put pipeline as
one run. Where they have the same header but for what changes from message to message, and no property that a stage
watches, they are checked, stored and answered together (`plain_runs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, cast

from rocketpy.errors import BrokerError
from rocketpy.remoting.answers import answer_for_error
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.send import SendMessageRequestHeader
from rocketpy.wire.send_layout import LaidOutSend
from rocketpy_broker_sim.broker.processors.recall import recall_handle
from rocketpy_broker_sim.broker.putting.batch_items import RefusedBatch, few_items_of, items_of
from rocketpy_broker_sim.broker.putting.put_pipeline import Put, Sent
from rocketpy_broker_sim.broker.replies import NOTHING_PUT, Reply
from rocketpy_broker_sim.broker.runs.plain_runs import PlainRuns
from rocketpy_broker_sim.broker.turn import RunProcessor
from rocketpy_broker_sim.serving.slices import MUST_END, PAUSE

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.send_layout import SendLayout
    from rocketpy_broker_sim.broker.replies import Replies
    from rocketpy_broker_sim.broker.views import SendView
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["SendProcessor"]

LARGE_BATCH = 16 * 1024
"""Bytes of a batch beyond which it may have many messages."""


def _may_be_large(request: RemotingCommand, header: SendMessageRequestHeader) -> bool:
    """Whether a batch may have so many messages that others should have their turn while it is read."""
    return bool(header.batch) and len(request.body) > LARGE_BATCH


def _layout(request: RemotingCommand) -> SendLayout | None:
    return request.layout if isinstance(request, LaidOutSend) else None


class SendProcessor(RunProcessor):
    """Puts what producers send.

    Args:
        broker: takes it.
    """

    def __init__(self, broker: SendView) -> None:
        self._broker = broker
        self._plain = PlainRuns(broker)

    def __call__(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Put one message or one batch."""
        put = self._put_of(connection, request)
        self._broker.pipeline.take([put] if put.is_under_way else [])
        self._broker.turn.rests_on(put)
        put.check()
        return self._answer(connection, request, put)

    def take(self, connection: Connection, requests: Sequence[RemotingCommand]) -> Sequence[Replies]:
        """Put what several requests bring, in order."""
        replies: list[Replies] = []
        for layout, group in groupby(requests, _layout):
            run = list(group)
            plain = self._plain.take(connection, cast("list[LaidOutSend]", run)) if layout is not None else None
            if plain is not None:
                replies.append(plain)
            else:
                replies += self._take(connection, run)
        return replies

    def _take(self, connection: Connection, requests: Sequence[RemotingCommand]) -> Sequence[Replies]:
        """Lead requests through the pipeline, large batches by themselves."""
        replies: list[Replies] = []
        run: list[tuple[RemotingCommand, Put]] = []
        for request in requests:
            put = self._put_of(connection, request)
            if put.sent is not None and _may_be_large(request, put.sent.header):
                put.sent.items = few_items_of(request.body)
                if put.sent.items is None:
                    replies += self._lead(connection, run)
                    replies += self._begin(connection, request, put)
                    run = []
                    continue
            run.append((request, put))
        return [*replies, *self._lead(connection, run)]

    def _lead(self, connection: Connection, run: Sequence[tuple[RemotingCommand, Put]]) -> Sequence[Replies]:
        self._broker.pipeline.take([put for _, put in run if put.is_under_way])
        return [self._reply(connection, request, put) for request, put in run]

    def _begin(self, connection: Connection, request: RemotingCommand, put: Put) -> Sequence[Replies]:
        """Read a large batch in slices, then put it. Its reply when that is done at once; else it follows."""
        turn, at_once = self._broker.turn, list[Reply]()
        is_later = False

        def steps(connection: Connection, request: RemotingCommand) -> Steps:
            yield MUST_END  # as any other message that was taken, though its sender may be gone
            if put.sent is not None:
                try:
                    put.sent.items = yield from items_of(request.body)
                except BrokerError as exc:
                    put.sent.items = RefusedBatch.of(exc)
            yield PAUSE  # a batch is put in one go
            self._broker.pipeline.take([put])
            reply = self._reply(connection, request, put)
            if not is_later:
                at_once.append(reply)
                return None
            turn.add(reply)
            yield  # putting it took a while: it is written by the next slice, or by a turn before that
            turn.finish()
            return None

        failure = self._broker.slices.sliced(steps, growth=1)(connection, request)
        is_later = True
        return at_once if failure is None else [Reply(connection, request, failure)]

    def _reply(self, connection: Connection, request: RemotingCommand, put: Put) -> Reply:
        return Reply(
            connection,
            request,
            self._answer(connection, request, put),
            NOTHING_PUT if put.result is None or put.refusal is not None else put.result.end,
            for_disk=put.wait,
            new_topic=put.new_topic,
        )

    def _put_of(self, connection: Connection, request: RemotingCommand) -> Put:
        try:
            if request.code == RequestCode.SEND_MESSAGE:
                header = SendMessageRequestHeader.from_ext(request.ext_fields)
            else:
                header = SendMessageRequestHeader.from_short_ext(request.ext_fields)
        except Exception as exc:  # noqa: BLE001  it is the answer to this request alone
            return Put(error=exc)
        return Put(sent=Sent(connection, request, header))

    def _answer(self, connection: Connection, request: RemotingCommand, put: Put) -> RemotingCommand:
        identity, sent, result = self._broker.identity, put.sent, put.result
        if (error := put.take_error()) is not None:
            return answer_for_error(request, error, connection.address)
        if put.refusal is not None or sent is None or result is None:
            code, remark = put.refusal or (ResponseCode.SYSTEM_ERROR, "")
            return request.answer(code, remark, dict(identity.send_fields))
        # In this order clients of ours read the answer in one pass (`fast_answer`).
        fields = {
            "msgId": result.offset_message_id,
            "queueId": str(sent.queue_id),
            "queueOffset": str(result.queue_offset),
        }
        if sent.unique_key is not None:
            fields["transactionId"] = sent.unique_key
        handle = recall_handle(identity, put)
        if handle is not None:
            fields["recallHandle"] = handle
        return request.answer(ResponseCode.SUCCESS, None, fields | identity.send_fields)
