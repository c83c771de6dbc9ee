"""What samplers, span processors and propagators raise costs no message and sends none twice."""

from __future__ import annotations

import asyncio
import logging
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from rocketpy.message import Message, MessageExt, MessageQueue
from rocketpy.otel.instruments import Instruments
from rocketpy.otel.receiving import Receives
from rocketpy.otel.sending import Sends
from rocketpy.results import SendResult, SendStatus
from tests.consumer.helpers import stored


class Processor(SpanProcessor):
    """One that raises in one of its methods."""

    def __init__(self, method: str, kind: type[BaseException]) -> None:
        self._method = method
        self._kind = kind

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if self._method == "on_start":
            raise self._kind("the processor is broken")

    def on_end(self, span: ReadableSpan) -> None:
        if self._method == "on_end":
            raise self._kind("the processor is broken")


class Propagator(TextMapPropagator):
    """One that raises, as those do that make numbers of what others have written."""

    @property
    def fields(self) -> set[str]:
        return set()

    def extract(self, *args: Any, **kwargs: Any) -> Context:
        raise ValueError("invalid literal for int() with base 16: 'garbage'")

    def inject(self, *args: Any, **kwargs: Any) -> None:
        raise ValueError("invalid literal for int() with base 16: 'garbage'")


KINDS = [RuntimeError, SystemExit, GeneratorExit, asyncio.CancelledError]


@pytest.fixture(params=["propagator", *product(["on_start", "on_end"], KINDS)], ids=str)
def broken(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Instruments:
    caplog.set_level(logging.CRITICAL, "rocketpy.otel.instruments")
    if request.param == "propagator":
        return Instruments(TracerProvider(), NoOpMeterProvider(), Propagator())
    tracers = TracerProvider()
    tracers.add_span_processor(Processor(*request.param))
    return Instruments(tracers, NoOpMeterProvider(), None)


def role(**methods: Any) -> Any:
    return SimpleNamespace(config=SimpleNamespace(group="g"), client=SimpleNamespace(client_id="1@2"), **methods)


def test_a_poll_returns_its_messages(broken: Instruments) -> None:
    found: list[MessageExt] = [stored(0), stored(1)]
    consumer = role(poll=lambda: found)
    Receives(broken, consumer).replace()
    assert consumer.poll() is found


def test_a_listener_gets_its_messages(broken: Instruments) -> None:
    taken: list[object] = []
    around = Receives(broken, role()).around(taken.append)
    one, more = stored(0), [stored(1), stored(2)]
    around(one)
    around(more)
    assert taken == [one, more]


def test_what_is_sent_is_sent_once_and_has_its_result(broken: Instruments) -> None:
    sent: list[Message] = []

    def send(message: Message) -> SendResult:
        sent.append(message)
        return SendResult(SendStatus.SEND_OK, "1", "not an id", MessageQueue("T", "b", 0), 0)

    producer = role(send=send, send_oneway=None)
    Sends(broken, producer).replace()
    assert producer.send(Message("T", b"x")).status is SendStatus.SEND_OK
    assert [message.body for message in sent] == [b"x"]


def test_a_time_that_is_no_time_does_not_keep_a_message_from_its_listener() -> None:
    taken: list[object] = []
    around = Receives(Instruments(TracerProvider(), NoOpMeterProvider(), None), role()).around(taken.append)
    message = stored(0)
    message.wire_properties["TIMER_DELIVER_MS"] = "9" * 5000
    around(message)
    assert taken == [message]


def test_ctrl_c_that_strikes_in_a_processor_reaches_the_caller() -> None:
    tracers = TracerProvider()
    tracers.add_span_processor(Processor("on_end", KeyboardInterrupt))
    producer = role(send=lambda _: None)
    Sends(Instruments(tracers, NoOpMeterProvider(), None), producer).replace()
    with pytest.raises(KeyboardInterrupt):
        producer.send(Message("T", b"x"))
