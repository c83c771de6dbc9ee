"""Traces of producers: messages sent, ends of transactions, and recalls.

Plays the part of SendMessageTraceHookImpl, EndTransactionTraceHookImpl and DefaultRecallMessageTraceHook.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from rocketpy.logs import Seldom, get_logger
from rocketpy.message import PropertyName
from rocketpy.results import LocalTransactionState, SendStatus
from rocketpy.seams import wall_ms
from rocketpy.trace.dispatcher import TraceDispatcher, tracing
from rocketpy.trace.records import FALSE, FIELD, KINDS, TRUE, MessageType, end_transaction, found_by, pub, recall
from rocketpy.wire.properties import decode_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.preparing.outgoing import Outgoing
    from rocketpy.config import ProducerConfig
    from rocketpy.results import SendResult

__all__ = ["SendTracer", "traced_sends"]

logger = get_logger(__name__)

_REGION: Final = "DefaultRegion"
_MOST_IDS: Final = 200
"""The largest number of ids of a batch in one record: a frame may have thousands, and each is a key of the record."""
_TAGS, _KEYS, _WAIT = PropertyName.TAGS, PropertyName.KEYS, PropertyName.WAIT
_PREPARED, _DELAY = PropertyName.TRANSACTION_PREPARED, PropertyName.DELAY
_SEND_OK = SendStatus.SEND_OK
_NORMAL, _HALF, _DELAYED = (
    KINDS[each] for each in (MessageType.NORMAL, MessageType.TRANSACTION_HALF, MessageType.DELAY)
)
_TRUE, _FALSE = TRUE, FALSE


class SendTracer:
    """Makes the records of one producer. For any thread; never waits, never raises.

    Args:
        dispatcher: sends the records.
        group: the group of the producer.
    """

    def __init__(self, dispatcher: TraceDispatcher, group: str) -> None:
        self._append, self._append_full = dispatcher.append, dispatcher.append_full
        self._records, self._before_full = dispatcher.records, dispatcher.before_full
        self._trace_topic = dispatcher.topic
        self._group = group
        self._middle = f"{FIELD}{group}{FIELD}"
        self._seldom = Seldom(logger)

    def sent(self, outgoing: Outgoing, address: str, seconds: float, result: SendResult) -> None:
        """Record a message, or a batch, that was stored after `seconds`."""
        try:
            status, message_id, offset_message_id, _, _, _, region, trace_on, _ = result
            message = outgoing.message
            topic, properties = message.topic, message.wire_properties
            if not trace_on or topic.startswith(self._trace_topic):
                return
            cost = int(seconds * 1000)
            if outgoing.stands_in or len(properties) > 1 or _WAIT not in properties or outgoing.is_batch:
                self._sent(outgoing, address, cost, result)
                return
            # What `pub` makes, for nearly every message, which has that property alone: without calls.
            text = (
                f"Pub\x01{wall_ms() - cost}\x01{region}{self._middle}{topic}\x01{message_id}\x01null\x01null\x01"
                f"{address}\x01{len(message.body)}\x01{cost}\x010\x01{offset_message_id}\x01"
                f"{_TRUE if status is _SEND_OK else _FALSE}"
            )
            if len(self._records) < self._before_full:
                self._records.append((topic, text, message_id))  # as `append` does
            else:
                self._append_full(topic, text, message_id)
        except Exception as exc:  # noqa: BLE001  the message has been sent
            self._seldom.error(type(exc).__name__, "a message to %s could not be traced", outgoing.topic, exc_info=exc)

    def _sent(self, outgoing: Outgoing, address: str, cost: int, result: SendResult) -> None:
        status, message_id, offset_message_id, _, _, _, region, _, _ = result
        message = outgoing.message
        topic = message.topic
        if outgoing.is_batch:
            self._sent_together(outgoing, address, cost, result)
            return
        properties = decode_properties(outgoing.properties) if outgoing.stands_in else message.wire_properties
        tags, keys = properties.get(_TAGS), properties.get(_KEYS)
        kind = _NORMAL
        if _DELAY in properties:
            kind = _DELAYED
        elif properties.get(_PREPARED) == "true":
            kind = _HALF
        success = _TRUE if status is _SEND_OK else _FALSE
        text = pub(
            wall_ms() - cost,
            region,
            self._group,
            topic,
            message_id,
            tags,
            keys,
            address,
            len(message.body),
            cost,
            kind,
            offset_message_id,
            success,
        )
        self._append(topic, text, message_id if keys is None else found_by(message_id, keys))

    def _sent_together(self, outgoing: Outgoing, address: str, cost: int, result: SendResult) -> None:
        """Record a batch, which has no tag or keys of its own: in one record, or in several for very many messages."""
        ids, offset_ids = result.message_id.split(","), result.offset_message_id.split(",")
        if len(offset_ids) != len(ids):
            offset_ids = []
        for start in range(0, len(ids), _MOST_IDS):
            some = slice(start, start + _MOST_IDS)
            text = pub(
                wall_ms() - cost,
                result.region_id,
                self._group,
                outgoing.topic,
                ",".join(ids[some]),
                None,
                None,
                address,
                len(outgoing.body),
                cost,
                _NORMAL,
                ",".join(offset_ids[some]) or result.offset_message_id,
                _TRUE if result.status is _SEND_OK else _FALSE,
            )
            self._append(outgoing.topic, text, " ".join((",".join(ids[some]), *ids[some])))

    def ended(
        self,
        topic: str,
        properties: Mapping[str, str],
        message_id: str,
        transaction_id: str | None,
        address: str,
        state: LocalTransactionState,
        *,
        from_check: bool,
    ) -> None:
        """Record the state of a transaction, which is about to be sent to a broker."""
        text = end_transaction(
            wall_ms(),
            properties.get(PropertyName.MSG_REGION) or _REGION,
            self._group,
            topic,
            message_id,
            properties.get(_TAGS),
            properties.get(_KEYS),
            address,
            MessageType.TRANSACTION_COMMIT,
            transaction_id,
            state,
            from_check=from_check,
        )
        self._append(topic, text, found_by(message_id, properties.get(_KEYS)))

    def recalled(self, topic: str, message_id: str, region: str, *, success: bool) -> None:
        """Record a recall that a broker has answered."""
        text = recall(wall_ms(), region, self._group, topic, message_id, success=success)
        self._append(topic, text, message_id)


@asynccontextmanager
async def traced_sends(client: MQClientInstance, config: ProducerConfig) -> AsyncIterator[SendTracer]:
    """The tracer of a producer, as a context."""
    async with tracing(client, config, config.group, "PRODUCE") as dispatcher:
        yield SendTracer(dispatcher, config.group)
