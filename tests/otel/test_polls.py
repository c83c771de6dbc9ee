"""How long a poll took, as its span and its metric say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rocketpy.message import MessageExt
from rocketpy.otel import receiving
from rocketpy.otel.instruments import Instruments
from rocketpy.otel.receiving import Receives
from tests.consumer.helpers import stored


def test_a_poll_lasts_from_the_call_to_its_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 12.5])
    monkeypatch.setattr(receiving, "perf_counter", lambda: next(clock))
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    found: list[MessageExt] = [stored(0)]
    client = SimpleNamespace(client_id="1@2")
    consumer = SimpleNamespace(config=SimpleNamespace(group="g"), client=client, poll=lambda: found)
    Receives(Instruments(tracers, MeterProvider([reader]), None), consumer).replace()
    assert consumer.poll() is found
    [span] = spans.get_finished_spans()
    assert span.end_time is not None
    assert span.start_time is not None
    assert 2.4 < (span.end_time - span.start_time) / 1e9 < 12
    data = reader.get_metrics_data()
    assert data is not None
    metrics = {each.name: each for each in data.resource_metrics[0].scope_metrics[0].metrics}
    [point] = metrics["messaging.client.operation.duration"].data.data_points
    assert 2.4 < point.sum < 12  # type: ignore[union-attr]
