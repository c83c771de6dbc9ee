"""The tracer and the instruments of metrics, and operations, which begin and end spans and record metrics.

Samplers, span processors and propagators are code of others, and may raise. That is logged and changes nothing else: no
message is sent twice, or lost, because of its span.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.metrics import get_meter
from opentelemetry.trace import INVALID_SPAN, Link, Span, SpanKind, Status, StatusCode

from rocketpy._version import __version__
from rocketpy.logs import Seldom, get_logger
from rocketpy.otel.conventions import (
    DESTINATION,
    ERROR_TYPE,
    OPERATION,
    OPERATION_TYPE,
    SYSTEM,
    Attributes,
    error_type,
    of_message,
)
from rocketpy.seams import wall_ms
from rocketpy.services import is_from_outside

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import TracerProvider

    from rocketpy.message import Message, MessageExt

__all__ = ["Instruments", "Operation", "described", "ending", "unharmed"]

_seldom = Seldom(get_logger(__name__))
_NAME = "rocketpy"
_OF_METRICS = frozenset({SYSTEM, OPERATION, OPERATION_TYPE, DESTINATION, "messaging.consumer.group.name"})
"""The attributes of metrics: only those with few values, so that there are few time series."""


@contextmanager
def unharmed(what: str) -> Iterator[None]:
    """Log an exception of the block, which only records something, and go on after the block."""
    try:
        yield
    except BaseException as error:  # that of a sampler, processor or propagator: SystemExit too
        if is_from_outside(error):
            raise
        _seldom.error((what, type(error)), "OpenTelemetry failed to %s: %r", what, error, exc_info=error)


def described(message: Message | MessageExt) -> Attributes:
    """The attributes of one message; none if they cannot be read, because others wrote its properties."""
    found: Attributes = {}
    with unharmed("describe a message"):
        found = of_message(message)
    return found


class Operation:
    """A send, a poll, or a call of a listener that is running.

    Args:
        instruments: the instruments that record it.
        span: its span.
        attributes: the attributes of its span; those in `_OF_METRICS` are kept for its metrics.
        messages: the number of its messages.
        processes: whether it is the call of a listener.
        elapsed: the seconds since it began.
    """

    def __init__(
        self,
        instruments: Instruments,
        span: Span,
        attributes: Attributes,
        messages: int,
        *,
        processes: bool,
        elapsed: float,
    ) -> None:
        self._instruments = instruments
        self.span = span
        self._attributes = {name: value for name, value in attributes.items() if name in _OF_METRICS}
        self.messages = messages
        self._processes = processes
        self._began = perf_counter() - elapsed
        self._ended = False

    @property
    def context(self) -> Context:
        """A context in which its span is the current one."""
        return trace.set_span_in_context(self.span)

    def end(self, error: BaseException | None = None, problem: str | None = None) -> None:
        """End it; only the first call counts.

        Args:
            error: the exception that it raised.
            problem: the result, if it is not a success and there was no exception.
        """
        if self._ended:
            return
        self._ended = True
        seconds, attributes = perf_counter() - self._began, self._attributes
        if error is not None:
            problem = error_type(error)
        if problem is not None:
            attributes = attributes | {ERROR_TYPE: problem}
            with unharmed("record an error"):
                self._record(error, problem)
        with unharmed("end a span"):
            self.span.end()
        with unharmed("record a metric"):
            self._instruments.count(attributes, seconds, self.messages, processes=self._processes)

    def _record(self, error: BaseException | None, problem: str) -> None:
        self.span.set_attribute(ERROR_TYPE, problem)
        if error is not None:
            self.span.record_exception(error)
            problem = str(error)
        self.span.set_status(Status(StatusCode.ERROR, problem))


class Instruments:
    """The tracer and the instruments.

    Args:
        tracer_provider: the provider for spans; the global one when None.
        meter_provider: the provider for metrics; the global one when None.
        propagator: injects contexts into properties and extracts them; the global one when None, by default W3C's.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
        propagator: TextMapPropagator | None,
    ) -> None:
        self.tracer = trace.get_tracer(_NAME, __version__, tracer_provider)
        self._propagator = propagator
        meter = get_meter(_NAME, __version__, meter_provider)
        self._duration = meter.create_histogram(
            "messaging.client.operation.duration", "s", "Duration of sends and receives."
        )
        self._processing = meter.create_histogram("messaging.process.duration", "s", "Duration of calls of listeners.")
        self._sent = meter.create_counter("messaging.client.sent.messages", "{message}", "Messages that were sent.")
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that were passed to the application."
        )

    def inject(self, properties: dict[str, str], context: Context) -> None:
        """Put a context into the properties of a message."""
        with unharmed("inject a context"):
            (self._propagator or propagate.get_global_textmap()).inject(properties, context)

    def extract(self, message: MessageExt) -> Context:
        """The context that a message carries; an empty one if there is none, or it cannot be read."""
        context = Context()
        with unharmed("extract a context"):
            context = (self._propagator or propagate.get_global_textmap()).extract(message.wire_properties, context)
        return context

    def begin(
        self,
        kind: SpanKind,
        name: str,
        type_: str,
        attributes: Attributes,
        messages: int,
        *,
        context: Context | None = None,
        links: Sequence[Link] = (),
        elapsed: float = 0.0,
    ) -> Operation:
        """Begin an operation, or one that began `elapsed` seconds ago.

        Its span is a child of the current span, or of the span in `context`.
        """
        found = {SYSTEM: "rocketmq", OPERATION: name, OPERATION_TYPE: type_} | attributes
        destination = attributes.get(DESTINATION)
        span: Span = INVALID_SPAN
        with unharmed("start a span"):
            span = self.tracer.start_span(
                name if destination is None else f"{name} {destination}",
                context,
                kind,
                found,
                links,
                start_time=wall_ms() * 1_000_000 - round(elapsed * 1e9) if elapsed else None,
                record_exception=False,
                set_status_on_exception=False,
            )
        return Operation(self, span, found, messages, processes=type_ == "process", elapsed=elapsed)

    def count(self, attributes: Attributes, seconds: float, messages: int, *, processes: bool) -> None:
        """Record an operation that has ended."""
        if processes:
            self._processing.record(seconds, attributes)
            self._consumed.add(messages, attributes)
            return
        self._duration.record(seconds, attributes)
        if attributes[OPERATION_TYPE] == "send":
            self._sent.add(messages, attributes)
        elif attributes[OPERATION_TYPE] == "receive":
            self._consumed.add(messages, attributes)


@contextmanager
def ending(operation: Operation) -> Iterator[Operation]:
    """Run a block within an operation, and end the operation with the exception of the block, if any."""
    with trace.use_span(operation.span, end_on_exit=False, record_exception=False, set_status_on_exception=False):
        try:
            yield operation
        except BaseException as error:
            operation.end(error)
            raise
    operation.end()
