"""Spans and metrics by OpenTelemetry, on every surface: from a send to what is consumed, with errors and batches."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain, repeat

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import rocketpy.sync
from rocketpy import (
    ConfigError,
    ConsumeFromWhere,
    LocalTransactionState,
    Message,
    ReplyTimeoutError,
    RouteNotFoundError,
    create_reply_message,
)
from rocketpy.otel import OpenTelemetry
from rocketpy.wire.message_columns import MessageColumns
from rocketpy_broker_sim import BlockingLocalCluster
from tests.surfaces.surface import call, entered
from tests.surfaces.test_lite_figures import eventually

pytestmark = pytest.mark.waits("waits for threads and loops of other kinds")

NOBODY = "127.0.0.1:1"
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Seen:
    """Where spans and metrics go."""

    def __init__(self):
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.telemetry = OpenTelemetry(
            tracer_provider=self.provider, meter_provider=MeterProvider(metric_readers=[self.reader])
        )
        self.tracer = self.provider.get_tracer("test")

    def spans(self, name=None):
        found = self.exporter.get_finished_spans()
        return [span for span in found if name is None or span.name.split()[0] == name]

    def metrics(self):
        """The sums of counters and the counts of histograms, by name, operation and error."""
        found = {}
        for resource in self.reader.get_metrics_data().resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in metric.data.data_points:
                    operation, error = point.attributes["messaging.operation.name"], point.attributes.get("error.type")
                    found[metric.name, operation, error] = getattr(point, "value", None) or getattr(point, "count", 0)
        return found


@pytest.fixture
def seen():
    return Seen()


def producer_of(surface, seen, namesrv, **settings):
    return seen.telemetry.instrument(surface.module.Producer("pg", namesrv=namesrv, **settings))


@pytest.mark.slow
def test_a_call_of_a_listener_is_a_child_of_the_send(surface, namesrv, topic, seen):
    currents, contexts = [], []

    async def awaited(message):
        plain(message)

    def plain(message):
        currents.append(trace.get_current_span().get_span_context())
        contexts.append(message.properties)
        if message.body == b"bad" and message.reconsume_times == 0:
            raise ZeroDivisionError("as told")

    async def main():
        consumer = surface.module.PushConsumer(f"cg-{topic}", namesrv=namesrv, consume_from_where=FIRST)
        seen.telemetry.instrument(consumer)
        consumer.subscribe(topic, awaited if surface.name == "asyncio" else plain)
        async with entered(producer_of(surface, seen, namesrv)) as producer:
            message = Message(topic, b"good", tags="a", keys=["k1", "k2"])
            with seen.tracer.start_as_current_span("request of a user"):
                await call(producer.send(message))
            assert "traceparent" not in message.properties  # it is the user's, and may be sent again
            await call(producer.send(Message(topic, b"bad")))
        async with entered(consumer):
            await eventually(surface, lambda: len(seen.spans("process")) == 3)

    surface.run(main)
    (outer,) = seen.spans("request")
    good, bad = seen.spans("send")
    assert (good.name, good.kind, good.parent.span_id) == (f"send {topic}", SpanKind.PRODUCER, outer.context.span_id)
    assert good.attributes["messaging.system"] == "rocketmq"
    assert good.attributes["messaging.destination.name"] == topic
    assert good.attributes["messaging.operation.type"] == "send"
    assert good.attributes["messaging.message.body.size"] == 4
    assert good.attributes["messaging.rocketmq.message.tag"] == "a"
    assert good.attributes["messaging.rocketmq.message.keys"] == ("k1", "k2")
    assert good.attributes["server.address"] == "127.0.0.1"
    processed = {span.parent.span_id: span for span in seen.spans("process")}
    child = processed[good.context.span_id]
    assert (child.kind, child.context.trace_id) == (SpanKind.CONSUMER, outer.context.trace_id)
    assert [link.context.span_id for link in child.links] == [good.context.span_id]
    assert child.attributes["messaging.consumer.group.name"] == f"cg-{topic}"
    assert child.attributes["messaging.message.id"] == good.attributes["messaging.message.id"]
    assert {current.span_id for current in currents} == {span.context.span_id for span in seen.spans("process")}
    failed, again = sorted(seen.spans("process"), key=lambda span: span.parent.span_id == good.context.span_id)[:2]
    assert {failed.parent.span_id, again.parent.span_id} == {bad.context.span_id}
    assert sorted([failed.status.status_code.name, again.status.status_code.name]) == ["ERROR", "UNSET"]
    (error,) = [span for span in (failed, again) if span.status.status_code is StatusCode.ERROR]
    assert error.attributes["error.type"] == "ZeroDivisionError"
    assert error.events[0].name == "exception"
    assert seen.metrics() == {
        ("messaging.client.operation.duration", "send", None): 2,
        ("messaging.client.sent.messages", "send", None): 2,
        ("messaging.process.duration", "process", None): 2,
        ("messaging.process.duration", "process", "ZeroDivisionError"): 1,
        ("messaging.client.consumed.messages", "process", None): 2,
        ("messaging.client.consumed.messages", "process", "ZeroDivisionError"): 1,
    }


def test_batches_and_polls_are_linked_to_what_was_sent(surface, namesrv, topic, seen):
    async def main():
        async with entered(producer_of(surface, seen, namesrv)) as producer:
            await call(producer.send_batch([Message(topic, b"1"), Message(topic, b"2")]))
            await call(producer.send_many(Message(topic, b"3") for _ in range(3)))
            await call(producer.send_oneway(Message(topic, b"4")))
        consumer = surface.module.LitePullConsumer(f"lite-{topic}", namesrv=namesrv, consume_from_where=FIRST)
        seen.telemetry.instrument(consumer)
        consumer.subscribe(topic)
        async with entered(consumer):
            got = []
            while len(got) < 6:
                got += await call(consumer.poll(timeout=10))
        with seen.telemetry.process(got[0]) as span:
            assert trace.get_current_span() is span
        with pytest.raises(KeyError), seen.telemetry.process(got):
            raise KeyError(1)

    surface.run(main)
    (batch,), (many,), (one,) = (seen.spans(name) for name in ("send_batch", "send_many", "send_oneway"))
    assert (batch.attributes["messaging.batch.message_count"], many.attributes["messaging.batch.message_count"]) == (
        2,
        3,
    )
    linked = [link.context.span_id for span in seen.spans("poll") for link in span.links]
    assert sorted(linked) == sorted([batch.context.span_id] * 2 + [many.context.span_id] * 3 + [one.context.span_id])
    assert {span.kind for span in seen.spans("poll")} == {SpanKind.CONSUMER}
    first, together = seen.spans("process")
    assert first.parent.span_id in linked
    assert together.parent is None
    assert sorted(link.context.span_id for link in together.links) == sorted(linked)
    assert together.status.status_code is StatusCode.ERROR
    assert seen.metrics()["messaging.client.consumed.messages", "poll", None] == 6
    assert seen.metrics()["messaging.client.sent.messages", "send_many", None] == 3


def test_messages_in_columns_carry_the_context_too(surface, namesrv, topic, seen):
    async def main():
        async with entered(producer_of(surface, seen, namesrv)) as producer:
            columns = MessageColumns(topic, [b"1", b"2"], ["WAIT\x01true\x02"] * 2)
            result = await call(producer.send_many([Message(topic, b"0"), columns]))
            assert result.messages == 3
        consumer = surface.module.LitePullConsumer(f"lite-{topic}", namesrv=namesrv, consume_from_where=FIRST)
        consumer.subscribe(topic)
        async with entered(consumer):
            got = []
            while len(got) < 3:
                got += await call(consumer.poll(timeout=10))
        (span,) = seen.spans("send_many")
        assert all(f"{span.context.span_id:016x}" in message.properties["traceparent"] for message in got)

    surface.run(main)


def test_errors_of_sends_are_recorded(surface, seen):
    async def main():
        settings = {"send_timeout": 0.3, "retry_times_when_send_failed": 0}
        async with entered(producer_of(surface, seen, NOBODY, **settings)) as producer:
            with pytest.raises(RouteNotFoundError):
                await call(producer.send(Message("T", b"1")))
            with pytest.raises(ConfigError):
                await call(producer.send("no message"))

    surface.run(main)
    unsent, wrong = seen.spans()
    assert unsent.status.status_code is wrong.status.status_code is StatusCode.ERROR
    assert unsent.attributes["error.type"].startswith("rocketpy.")
    assert wrong.attributes["error.type"] == "rocketpy.ConfigError"
    assert unsent.events[0].attributes["exception.type"].endswith(unsent.attributes["error.type"].rpartition(".")[2])


def test_the_message_may_be_given_by_keyword(surface, namesrv, topic, seen):
    message = Message(topic, b"x")

    async def main():
        async with entered(producer_of(surface, seen, namesrv)) as producer:
            await call(producer.send(message=message))
            await call(producer.send_oneway(message=message))
            await call(producer.send_batch(messages=[message, message]))
            await call(producer.send_many(messages=[message]))
            with pytest.raises(ReplyTimeoutError):
                await call(producer.request(message=message, timeout=1))
            with pytest.raises(TypeError, match="missing 1 required positional argument: 'message'"):
                await call(producer.send())
        made = surface.module.TransactionProducer("tg", namesrv=namesrv, checker=print, executor=lambda *_: "commit")
        async with entered(seen.telemetry.instrument(made)) as producer:
            assert (await call(producer.send_in_transaction(message=message))).local_state.value == "COMMIT"

    surface.run(main)
    names = [span.name.split()[0] for span in seen.spans() if span.attributes.get("error.type") != "TypeError"]
    assert names == ["send", "send_oneway", "send_batch", "send_many", "request", "send", "transaction"]


def test_the_message_of_a_future_may_be_given_by_keyword(namesrv, topic, seen):
    with seen.telemetry.instrument(rocketpy.sync.Producer("pg", namesrv=namesrv)) as producer:
        assert producer.send_soon(message=Message(topic, b"1")).result(30)
        request = producer.request_soon(message=Message(topic, b"2"), timeout=1)
        assert isinstance(request.exception(30), ReplyTimeoutError)
    assert [span.name.split()[0] for span in seen.spans()] == ["send", "request"]


def test_a_transaction_is_a_span_with_its_first_half_and_the_executor_within(surface, namesrv, topic, seen):
    inside = []

    def executor(message, arg):
        inside.append(trace.get_current_span().get_span_context().span_id)
        return arg

    async def main():
        made = surface.module.TransactionProducer(
            "tg", namesrv=namesrv, checker=lambda message: LocalTransactionState.COMMIT, executor=executor
        )
        async with entered(seen.telemetry.instrument(made)) as producer:
            for state in (LocalTransactionState.COMMIT, LocalTransactionState.UNKNOWN):
                await call(producer.send_in_transaction(Message(topic, b"1"), None, state))

    surface.run(main)
    committed, unknown = seen.spans("transaction")
    halves = seen.spans("send")
    assert [half.parent.span_id for half in halves] == [committed.context.span_id, unknown.context.span_id] == inside
    assert {half.attributes["messaging.rocketmq.message.type"] for half in halves} == {"transaction"}
    assert committed.attributes["messaging.rocketmq.transaction_state"] == "COMMIT"
    assert committed.status.status_code is StatusCode.UNSET
    assert unknown.status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("last", [LocalTransactionState.COMMIT, "commit"], ids=["by state", "by name"])
def test_a_checker_is_a_span_below_the_send_of_the_first_half(seen, last):
    answers = chain([ZeroDivisionError("as told")], repeat(last))  # if that takes long, the broker asks again

    def checker(message):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    settings = {"transaction_time_out": 100, "transaction_check_interval": 200}
    with BlockingLocalCluster(**settings) as cluster:
        made = rocketpy.sync.TransactionProducer("tg", namesrv=cluster.name_server_addresses, checker=checker)
        with seen.telemetry.instrument(made) as producer:
            producer.send_in_transaction(Message("T", b"1"), lambda message, arg: LocalTransactionState.UNKNOWN)
            assert cluster.wait_messages("T")
    (half,), (failed, committed, *more) = seen.spans("send"), seen.spans("check")
    assert {span.parent.span_id for span in more} <= {half.context.span_id}
    assert failed.parent.span_id == committed.parent.span_id == half.context.span_id
    assert failed.attributes["error.type"] == "ZeroDivisionError"
    assert committed.attributes["messaging.rocketmq.transaction_state"] == "COMMIT"
    assert committed.status.status_code is StatusCode.UNSET


@pytest.mark.slow
def test_a_reply_is_a_span_below_the_listener_that_got_the_request(surface, namesrv, topic, seen):
    async def main():
        consumer = surface.module.PushConsumer(f"cg-{topic}", namesrv=namesrv, consume_from_where=FIRST)
        with seen.telemetry.instrument(rocketpy.sync.Producer("answers", namesrv=namesrv)) as answering:
            seen.telemetry.instrument(consumer).subscribe(
                topic, lambda message: answering.send(create_reply_message(message, b"42")) and None
            )
            async with entered(producer_of(surface, seen, namesrv)) as producer:
                async with entered(consumer):
                    reply = await call(producer.request(Message(topic, b"?"), timeout=20))
                    assert reply.body == b"42"

    surface.run(main)
    (request,), (processed,), (reply,) = (seen.spans(name) for name in ("request", "process", "send"))
    assert request.kind is reply.kind is SpanKind.PRODUCER
    assert processed.parent.span_id == request.context.span_id
    assert reply.parent.span_id == processed.context.span_id
    assert request.status.status_code is StatusCode.UNSET


def test_futures_end_their_spans_and_failures_stay_unseen(namesrv, topic, seen):
    producer = seen.telemetry.instrument(rocketpy.sync.Producer("pg", namesrv=namesrv))
    with producer:
        futures = [producer.send_soon(Message(topic, b"1")) for _ in range(5)]
        assert all(future.result(30) for future in futures)
    assert len(seen.spans("send")) == 5
    assert {span.status.status_code for span in seen.spans()} == {StatusCode.UNSET}
    assert all("messaging.message.id" in span.attributes for span in seen.spans())
    with seen.telemetry.instrument(rocketpy.sync.Producer("pg", namesrv=NOBODY, send_timeout=0.2)) as other:
        future = other.send_soon(Message(topic, b"1"))
        assert not future._looked_at  # as a failure that nobody looks at, it would be logged
        assert future.exception(30) is not None
    assert seen.spans()[-1].status.status_code is StatusCode.ERROR


def test_what_cannot_be_instrumented_is_refused(surface, seen):
    producer = producer_of(surface, seen, "n:1")
    with pytest.raises(ConfigError, match="instrumented already"):
        seen.telemetry.instrument(producer)
    consumer = surface.module.PushConsumer("cg", namesrv="n:1")
    consumer.subscribe("T", lambda message: None)
    with pytest.raises(ConfigError, match="before you subscribe"):
        seen.telemetry.instrument(consumer)
    with pytest.raises(ConfigError, match=r"got the class Producer: instrument\(Producer\("):
        seen.telemetry.instrument(surface.module.Producer)
    with pytest.raises(ConfigError, match="expected a Producer"):
        seen.telemetry.instrument(surface.module.MQClientInstance(namesrv="n:1"))


@pytest.mark.slow
def test_nothing_else_imports_opentelemetry_and_without_it_the_error_says_what_to_install():
    code = (
        "import sys, rocketpy, rocketpy.sync, rocketpy.aio\n"
        "for module in (rocketpy, rocketpy.sync, rocketpy.aio):\n"
        "    for name in module.__all__: getattr(module, name)\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
        "sys.modules['opentelemetry'] = None\n"
        "try: import rocketpy.otel\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "install rocketpy with its extra, rocketpy[otel]" in done.stdout
