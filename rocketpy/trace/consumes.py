"""Traces of consumers: a record before each call of a listener, and one after it, for each message of the call.

Plays the part of ConsumeMessageTraceHookImpl.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from rocketpy.client.client_id import new_unique_ids
from rocketpy.message import PropertyName
from rocketpy.seams import wall_ms
from rocketpy.trace.dispatcher import TraceDispatcher, tracing
from rocketpy.trace.records import ContextCode, found_by, sub_after, sub_before

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config.sharing import SharingConfig
    from rocketpy.message import MessageExt
    from rocketpy.wire.message_id import UniqueIds

__all__ = ["ConsumeTracer", "traced_consumption"]

_REGION: Final = "DefaultRegion"
_KEYS, _MSG_REGION, _TRACE_ON = PropertyName.KEYS, PropertyName.MSG_REGION, PropertyName.TRACE_SWITCH

Ended = Callable[[ContextCode, bool], None]
"""Called with how a listener call has ended, and whether that is a success."""


class ConsumeTracer:
    """Makes the records of one consumer. For any thread; never waits.

    Args:
        dispatcher: sends the records.
        group: the group of the consumer.
        unique_ids: makes the ids that the records of one call have in common.
        timeout: the seconds after which a listener call is recorded as TIME_OUT.
    """

    def __init__(
        self, dispatcher: TraceDispatcher, group: str, unique_ids: UniqueIds, timeout: float = math.inf
    ) -> None:
        self._dispatcher = dispatcher
        self._group = group
        self._ids = unique_ids
        self._timeout_ms = timeout * 1000

    def begin(self, messages: Sequence[MessageExt]) -> Ended | None:
        """Record messages with which a listener is about to be called.

        Returns:
            A function to call when the listener call has ended; None if none of the messages is traced.
        """
        traced = [each for each in messages if each.wire_properties.get(_TRACE_ON) != "false"]
        if not traced:
            return None
        request_id, began, group, count = self._ids.next(), wall_ms(), self._group, len(messages)
        region = traced[-1].wire_properties.get(_MSG_REGION) or _REGION
        traced_ids = [(each.topic, each.message_id, each.wire_properties.get(_KEYS)) for each in traced]
        before = [
            sub_before(began, region, group, request_id, each.message_id, each.reconsume_times, keys)
            for each, (_, _, keys) in zip(traced, traced_ids, strict=True)
        ]
        self._append(traced_ids, before)

        def ended(code: ContextCode, success: bool) -> None:
            now = wall_ms()
            if now - began >= self._timeout_ms and code is not ContextCode.EXCEPTION:
                code = ContextCode.TIME_OUT
            cost = (now - began) // count
            after = [
                sub_after(request_id, message_id, cost, keys, code, now, group, success=success)
                for _, message_id, keys in traced_ids
            ]
            self._append(traced_ids, after)

        return ended

    def polled(self, messages: Sequence[MessageExt]) -> None:
        """Record messages that a poll returns, which counts as consumed, as in Java."""
        ended = self.begin(messages)
        if ended is not None:
            ended(ContextCode.SUCCESS, True)

    def _append(self, traced_ids: Sequence[tuple[str, str, str | None]], texts: Sequence[str]) -> None:
        for (topic, message_id, keys), text in zip(traced_ids, texts, strict=True):
            self._dispatcher.append(topic, text, found_by(message_id, keys))


@asynccontextmanager
async def traced_consumption(
    client: MQClientInstance, config: SharingConfig, timeout: float = math.inf
) -> AsyncIterator[ConsumeTracer]:
    """The tracer of a consumer, as a context; `timeout` is that of its listeners, in seconds."""
    async with tracing(client, config, config.group, "CONSUME") as dispatcher:
        yield ConsumeTracer(dispatcher, config.group, new_unique_ids(client.network.local_ip()), timeout)
