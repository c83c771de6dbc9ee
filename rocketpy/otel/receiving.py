"""Spans of consumers: around each call of a listener, and for each poll that returns messages.

The span of one message is a child of the span in whose context it was sent; that of several messages has links to
those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import iscoroutinefunction
from time import perf_counter
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanKind

from rocketpy.consumer.listeners import is_async_listener
from rocketpy.otel.conventions import (
    BATCH_COUNT,
    CLIENT_ID,
    CONSUMER_GROUP,
    DESTINATION,
    MESSAGE_ID,
    PARTITION,
    RESULT,
    Attributes,
    topics_of,
)
from rocketpy.otel.instruments import Instruments, Operation, described, ending
from rocketpy.otel.sending import client_id_of
from rocketpy.results import ConsumeResult, RetryLater, Suspend

if TYPE_CHECKING:
    from rocketpy.message import MessageExt

__all__ = ["Receives", "process"]

_MOST_LINKS = 128
"""As many as the SDK keeps by default."""


class Receives:
    """The spans of one consumer.

    Args:
        instruments: makes the spans.
        consumer: a push or lite pull consumer of any surface.
    """

    def __init__(self, instruments: Instruments, consumer: Any) -> None:
        self._instruments = instruments
        self._consumer = consumer
        self._about: Attributes = {CONSUMER_GROUP: consumer.config.group, CLIENT_ID: client_id_of(consumer)}

    def replace(self) -> None:
        """Replace the method that passes messages to the application."""
        if hasattr(self._consumer, "poll"):
            self._consumer.poll = self._around_poll(self._consumer.poll)
            return
        subscribe = self._consumer.subscribe

        @wraps(subscribe)
        def subscribed(topic: str, listener: Any, **kwargs: Any) -> None:
            subscribe(topic, self.around(listener) if callable(listener) else listener, **kwargs)

        self._consumer.subscribe = subscribed

    # --- listeners ---------------------------------------------------------------------------------------

    def around(self, listener: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A listener of the same kind, with a span around each call."""
        if is_async_listener(listener):

            @wraps(listener)
            async def awaited(what: Any) -> object:
                with ending(self._processing(what)) as operation:
                    outcome: object = await listener(what)
                    _judge(operation, outcome)
                return outcome

            return awaited

        @wraps(listener)
        def called(what: Any) -> object:
            with ending(self._processing(what)) as operation:
                outcome: object = listener(what)
                _judge(operation, outcome)
            return outcome

        return called

    def _processing(self, what: MessageExt | Sequence[MessageExt]) -> Operation:
        return process(self._instruments, what, self._about)

    # --- polls -------------------------------------------------------------------------------------------

    def _around_poll(self, poll: Callable[..., Any]) -> Callable[..., Any]:
        if iscoroutinefunction(poll):

            @wraps(poll)
            async def awaited(*args: Any, **kwargs: Any) -> list[MessageExt]:
                began = perf_counter()
                messages: list[MessageExt] = await poll(*args, **kwargs)
                self._received(messages, perf_counter() - began)
                return messages

            return awaited

        @wraps(poll)
        def called(*args: Any, **kwargs: Any) -> list[MessageExt]:
            began = perf_counter()
            messages: list[MessageExt] = poll(*args, **kwargs)
            self._received(messages, perf_counter() - began)
            return messages

        return called

    def _received(self, messages: Sequence[MessageExt], elapsed: float) -> None:
        """Make the span of a poll that took so many seconds; a poll without messages has none."""
        if not messages:
            return
        attributes = self._about | {BATCH_COUNT: len(messages)}
        topic = topics_of(messages)
        if topic is not None:
            attributes[DESTINATION] = topic
        links = links_to(self._instruments, messages)
        self._instruments.begin(
            SpanKind.CONSUMER, "poll", "receive", attributes, len(messages), links=links, elapsed=elapsed
        ).end()


def links_to(instruments: Instruments, messages: Sequence[MessageExt]) -> list[Link]:
    """Links to the spans in whose context messages were sent."""
    contexts = [instruments.extract(message) for message in messages[:_MOST_LINKS]]
    spans = [trace.get_current_span(context).get_span_context() for context in contexts]
    return [Link(span) for span in spans if span.is_valid]


def process(instruments: Instruments, what: MessageExt | Sequence[MessageExt], about: Attributes) -> Operation:
    """Begin to process one message, or several together."""
    if isinstance(what, Sequence):
        attributes = about | {BATCH_COUNT: len(what)}
        topic = topics_of(what)
        if topic is not None:
            attributes[DESTINATION] = topic
        links = links_to(instruments, what)
        return instruments.begin(
            SpanKind.CONSUMER, "process", "process", attributes, len(what), context=Context(), links=links
        )
    attributes = about | {
        DESTINATION: what.topic,
        MESSAGE_ID: what.message_id,
        PARTITION: str(what.queue_id),
    }
    attributes |= described(what)
    context = instruments.extract(what)
    return instruments.begin(
        SpanKind.CONSUMER, "process", "process", attributes, 1, context=context, links=links_to(instruments, [what])
    )


def _judge(operation: Operation, outcome: object) -> None:
    """Note the result of a listener that is not a success."""
    if outcome is False or isinstance(outcome, RetryLater | Suspend):
        said = "RETRY"
    elif isinstance(outcome, ConsumeResult) and outcome is not ConsumeResult.SUCCESS:
        said = outcome.name
    else:
        return
    operation.span.set_attribute(RESULT, said)
    if said not in ("COMMIT", "SUCCESS"):
        operation.end(problem=said)
