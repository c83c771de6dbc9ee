"""Follow messages with OpenTelemetry, from a send to the listener: `python -m examples.otel_spans [NAMESRV TOPIC]`.

Needs the extra `otel` and the package opentelemetry-sdk. Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import asyncio
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from examples.servers import servers
from rocketpy.aio import ConsumeFromWhere, Message, MessageExt, Producer, PushConsumer
from rocketpy.otel import instrument


async def main(namesrv: str, topic: str) -> None:
    """Send within a span of our own, and consume."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()  # a real program exports to a collector
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    done = asyncio.Event()

    async def bill(message: MessageExt) -> None:
        with trace.get_tracer("shop").start_as_current_span("write the bill"):
            done.set()

    consumer = instrument(
        PushConsumer("billing", namesrv=namesrv, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    )
    consumer.subscribe(topic, bill)
    async with instrument(Producer("shop", namesrv=namesrv)) as producer:
        with trace.get_tracer("shop").start_as_current_span("take the order"):
            await producer.send(Message(topic, b"one coffee"))
    async with consumer:
        await done.wait()

    spans = {span.context.span_id: span for span in exporter.get_finished_spans()}
    span = next(span for span in spans.values() if span.name == "write the bill")
    while span.parent is not None:
        print(f"{span.name}  <-  ", end="")
        span = spans[span.parent.span_id]
    print(span.name)


if __name__ == "__main__":
    with servers(sys.argv[1] if len(sys.argv) > 1 else None) as addresses:
        asyncio.run(main(addresses, sys.argv[2] if len(sys.argv) > 2 else "Orders"))
