"""OpenTelemetry: what users call."""

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
    """Spans and metrics by OpenTelemetry's conventions for messaging.

    Args:
        tracer_provider: Where spans go; the global provider when None.
        meter_provider: Where metrics go; the global provider when None.
        propagator: Puts the context of a span into the properties of messages, and takes it out; the global one when
            None, which is W3C's (`traceparent`, `tracestate`, `baggage`) unless you have set another.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        propagator: TextMapPropagator | None = None,
    ) -> None:
        self._instruments = Instruments(tracer_provider, meter_provider, propagator)

    def instrument(self, role: T) -> T:
        """Have a producer or a consumer make spans and metrics from now on, whatever its surface.

        A producer makes a span for every call that sends; the messages carry its context. A push consumer makes one
        around every call of a listener that is subscribed from now on, a lite pull consumer one for every poll that
        returns messages: put `process` around what you do with them. A transaction producer makes one around every call
        of its checker, if it is instrumented before it is opened.

        Args:
            role: a `Producer`, `TransactionProducer`, `PushConsumer` or `LitePullConsumer` of any surface.

        Returns:
            The same object.

        Raises:
            ConfigError: it is none of these, was instrumented before, or has listeners already.
        """
        if getattr(role, _MARK, False):
            raise ConfigError(f"{role!r} is instrumented already")
        made = self._spans_of(role)
        made.replace()
        setattr(role, _MARK, True)
        return role

    def _spans_of(self, role: Any) -> Sends | Receives:
        if hasattr(role, "send_oneway"):
            return Sends(self._instruments, role)
        if not hasattr(role, "subscribe"):
            raise ConfigError(
                f"give a Producer, TransactionProducer, PushConsumer or LitePullConsumer, not {role!r:.100}"
            )
        if not hasattr(role, "poll") and role.status().topics:
            raise ConfigError(f"{role!r} has listeners already: instrument it before you subscribe")
        return Receives(self._instruments, role)

    @contextmanager
    def process(self, what: MessageExt | Sequence[MessageExt]) -> Iterator[Span]:
        """Make a span around what you do with a message, or with several together, that a poll or a loop has given.

        The span of one message is a child of that of its sender; the span of several has links to those. An exception
        is recorded, and goes on.

        Args:
            what: the message or messages.
        """
        with ending(process(self._instruments, what, {})) as operation:
            yield operation.span


def instrument(role: T) -> T:
    """Have a producer or consumer make spans and metrics, for the global providers.

    See `OpenTelemetry.instrument`.
    """
    return OpenTelemetry().instrument(role)
