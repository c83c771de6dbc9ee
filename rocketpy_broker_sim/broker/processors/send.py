"""Taking messages: SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE. Plays the part of SendMessageProcessor.

This is the hottest path of the broker. The requests that a connection brings at once go through the put pipeline as
one run. Where they have the same header but for what changes from message to message, and no property that a stage
watches, they are checked, stored and answered together (`plain_runs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, cast

from rocketpy.remoting.dispatch import answer_for_error
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.send import SendMessageRequestHeader
from rocketpy.wire.send_layout import LaidOutSend
from rocketpy_broker_sim.broker.plain_runs import PlainRuns
from rocketpy_broker_sim.broker.put_pipeline import Put, Sent
from rocketpy_broker_sim.broker.replies import NOTHING_PUT, Reply
from rocketpy_broker_sim.broker.send_checks import SendChecks
from rocketpy_broker_sim.broker.turn import RunProcessor

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.send_layout import SendLayout
    from rocketpy_broker_sim.broker.replies import Replies
    from rocketpy_broker_sim.broker.views import SendView

__all__ = ["SendProcessor"]


def _layout(request: RemotingCommand) -> SendLayout | None:
    return request.layout if isinstance(request, LaidOutSend) else None


class SendProcessor(RunProcessor):
    """Puts what producers send.

    Args:
        broker: takes it.
    """

    def __init__(self, broker: SendView) -> None:
        self._broker = broker
        self._plain = PlainRuns(broker, SendChecks(broker))

    def __call__(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Put one message or one batch."""
        put = self._put_of(connection, request)
        self._broker.pipeline.take([put] if put.is_under_way else [])
        self._broker.turn.rests_on(put)
        if put.error is not None:
            raise put.error
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
        puts = [self._put_of(connection, request) for request in requests]
        self._broker.pipeline.take([put for put in puts if put.is_under_way])
        return [
            Reply(
                connection,
                request,
                self._answer(connection, request, put),
                NOTHING_PUT if put.result is None or put.refusal is not None else put.result.end,
                for_disk=put.wait,
                new_topic=put.new_topic,
            )
            for request, put in zip(requests, puts, strict=True)
        ]

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
        broker, sent, result = self._broker, put.sent, put.result
        if put.error is not None:
            return answer_for_error(request, put.error, connection.address)
        if put.refusal is not None or sent is None or result is None:
            code, remark = put.refusal or (ResponseCode.SYSTEM_ERROR, "")
            return request.answer(code, remark, dict(broker.send_fields))
        # In this order clients of ours read the answer in one pass (`fast_answer`).
        fields = {
            "msgId": result.offset_message_id,
            "queueId": str(sent.queue_id),
            "queueOffset": str(result.queue_offset),
        }
        if sent.unique_key is not None:
            fields["transactionId"] = sent.unique_key
        return request.answer(ResponseCode.SUCCESS, None, fields | broker.send_fields)
