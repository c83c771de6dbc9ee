"""What a client keeps is empty or at its cap once a burst is over: nothing is left of what has ended."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client import requests
from rocketpy.client.instance import MQClientInstance
from rocketpy.consumer import PushConsumer
from rocketpy.errors import ReplyTimeoutError, RocketMQError
from rocketpy.message import Message
from rocketpy.producer import Producer
from rocketpy.trace.dispatcher import TraceDispatcher
from tests.system.consuming import Recorder, world
from tests.system.test_request_reply import replying

SENT = 400
ASKED = 50
REMEMBERED = 20
"""The caps of both memories: of ended requests, and of consumed messages."""


def tables(client: MQClientInstance, producer: Producer, consumer: PushConsumer) -> dict[str, int]:
    """The number of entries in each table."""
    connections = [connection.statistics() for connection in client.pool.connections()]
    traces = [each for each in client.tracing.values() if isinstance(each, TraceDispatcher)]
    assert connections
    assert traces
    return {
        "opaques of requests": sum(each.in_flight for each in connections),
        "requests of peers": sum(each.parked for each in connections),
        "trace records": sum(len(each.records) for each in traces),
        "faults": len(producer.statistics().faults.brokers),
        "requests for replies": len(client.requests),
        "ended requests": len(client.requests._ended),
        "sends": producer.statistics().in_flight,
        "seen ids": len(consumer._around.consumed._seen),
    }


async def burst(producer: Producer, tolerated: list[Exception]) -> None:
    """Send, ask and be asked at once: some sends fail, are slow or are cancelled, and half of the requests time out."""

    async def send(number: int) -> None:
        with trio.move_on_after(0.2 if number % 10 == 0 else 60):
            try:
                await producer.send(Message("Burst", b"%d" % number))
            except RocketMQError as exc:
                tolerated.append(exc)

    async def ask(number: int) -> None:
        if number % 2:
            await producer.request(Message("Orders", b"%d" % number), timeout=30)
        else:
            with pytest.raises(ReplyTimeoutError):
                await producer.request(Message("Silent", b"%d" % number), timeout=10)

    async with trio.open_nursery() as nursery:
        for number in range(SENT):
            nursery.start_soon(send, number)
        for number in range(2 * ASKED):
            nursery.start_soon(ask, number)


@pytest.mark.slow
async def test_threat_L8_every_table_of_a_client_is_empty_or_at_its_cap_at_rest_after_a_burst(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "_MOST_ENDED", REMEMBERED)
    got, tolerated = Recorder(), list[Exception]()
    async with world(2, topics=("Orders", "Burst", "Silent"), trace_topic_enable=True) as w, replying(w, delay=1.0):
        where = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
        async with Producer("askers", send_latency_enable=True, enable_msg_trace=True, **where) as producer:
            client = producer.client
            seeing = {"dedupe": "unique_id", "dedupe_size": REMEMBERED, "enable_msg_trace": True}
            consumer = PushConsumer("billing", client=client, **seeing)
            consumer.subscribe("Burst", got)
            async with consumer, trio.open_nursery() as nursery:
                await consumer.wait_assigned(10)
                w.cluster.delay_sends(1.0, 100)
                w.cluster.refuse_sends(20, broker=0)
                w.cluster.lose_answers(10, broker=1)
                nursery.start_soon(burst, producer, tolerated)
                most = tables(client, producer, consumer)
                for _ in range(30):
                    await trio.sleep(0.5)
                    now = tables(client, producer, consumer)
                    most = {name: max(now[name], before) for name, before in most.items()}
                await trio.sleep(700)  # what is held against a broker for longest has ended
                for _ in range(8):  # the probes
                    await producer.send(Message("Silent", b"well again"))
                await trio.sleep(30)
            rest = tables(client, producer, consumer)  # the consumer has closed, or brokers would hold its pulls
    assert [name for name, entries in most.items() if not entries] == ["requests of peers"]  # answered at once
    assert most["seen ids"] == rest.pop("seen ids") == REMEMBERED
    assert most["ended requests"] == rest.pop("ended requests") == REMEMBERED
    assert rest == dict.fromkeys(rest, 0)
    assert len(got.messages) >= SENT * 0.9 - len(tolerated)
