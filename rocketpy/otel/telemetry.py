"""OpenTelemetry: the public API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from rocketpy.errors import ConfigError
from rocketpy.otel.instruments import Instruments, ending
from rocketpy.otel.receiving import Receives, process
from rocketpy.otel.sending import Sends

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Span, TracerProvider

    from rocketpy.message import MessageExt

__all__ = ["OpenTelemetry", "instrument"]

T = TypeVar("T")

_MARK = "_rocketpy_otel"


class OpenTelemetry:
    """Spans and metrics by OpenTelemetry's semantic conventions for messaging.

    Args:
        tracer_provider: The provider for spans; the global one when None.
        meter_provider: The provider for metrics; the global one when None.
        propagator: Injects the context of a span into the properties of messages, and extracts it; the global one when
            None, which is W3C's (`traceparent`, `tracestate`, `baggage`) unless you have set another.

    Raises:
        ConfigError: one of them is no such object.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        propagator: TextMapPropagator | None = None,
    ) -> None:
        for name, given, method in (
            ("tracer_provider", tracer_provider, "get_tracer"),
            ("meter_provider", meter_provider, "get_meter"),
            ("propagator", propagator, "inject"),
        ):
            if given is not None and (isinstance(given, type) or not callable(getattr(given, method, None))):
                raise ConfigError(f"{name} must be an object with the method {method}, or None, not {given!r:.100}")
        self._instruments = Instruments(tracer_provider, meter_provider, propagator)

    def instrument(self, role: T) -> T:
        """Make spans and metrics for a producer or consumer of any surface from now on.

        A producer gets a span for every call that sends; the messages carry its context. A push consumer gets a span
        for every call of a listener that is subscribed after this. A lite pull consumer gets a span for every poll that
        returns messages; put `process` around the code that processes them. A transaction producer gets a span for
        every call of its checker if it is instrumented before it is opened.

        Args:
            role: a `Producer`, `TransactionProducer`, `PushConsumer` or `LitePullConsumer` of any surface.

        Returns:
            The same object.

        Raises:
            ConfigError: the object is none of these, was instrumented before, or has listeners already.
        """
        if isinstance(role, type):
            raise ConfigError(f"expected an object, got the class {role.__name__}: instrument({role.__name__}(...))")
        if getattr(role, _MARK, False):
            raise ConfigError(f"{role!r} is instrumented already: instrument each producer or consumer once")
        made = self._spans_of(role)
        made.replace()
        setattr(role, _MARK, True)
        return role

    def _spans_of(self, role: Any) -> Sends | Receives:
        if hasattr(role, "send_oneway"):
            return Sends(self._instruments, role)
        if not hasattr(role, "subscribe"):
            raise ConfigError(
                f"expected a Producer, TransactionProducer, PushConsumer or LitePullConsumer, got {role!r:.100}"
            )
        if not hasattr(role, "poll") and role.status().topics:
            raise ConfigError(f"{role!r} has listeners already: instrument it before you subscribe")
        return Receives(self._instruments, role)

    @contextmanager
    def process(self, what: MessageExt | Sequence[MessageExt]) -> Iterator[Span]:
        """Make a span around the code that processes a message, or several messages together, of a poll.

        The span of one message is a child of the span of its sender; the span of several messages has links to those
        spans. An exception is recorded, and propagates.

        Args:
            what: the message, or a list of messages.
        """
        with ending(process(self._instruments, what, {})) as operation:
            yield operation.span


def instrument(role: T) -> T:
    """Make spans and metrics for a producer or consumer, with the global providers.

    See `OpenTelemetry.instrument`.
    """
    return OpenTelemetry().instrument(role)
