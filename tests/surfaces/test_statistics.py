"""What producers, consumers and clients tell of themselves is the same on every surface."""

from __future__ import annotations

import time

import pytest

from rocketpy import ConsumeFromWhere, Message
from tests.surfaces.surface import call, entered
from tests.surfaces.test_lite_figures import eventually

pytestmark = pytest.mark.waits("waits for threads and loops of other kinds")


@pytest.mark.slow
def test_every_send_of_a_producer_is_counted_once(surface, namesrv, topic):
    async def main():
        async with entered(surface.module.Producer("p", namesrv=namesrv)) as producer:
            for _ in range(600):  # most of them over a data connection, where there is such
                await call(producer.send(Message(topic, b"12345")))
            await call(producer.send(Message(topic, b"12345", sharding_key="k")))
            await call(producer.send_batch([Message(topic, b"1"), Message(topic, b"2")]))
            await call(producer.send_many([Message(topic, b"x") for _ in range(50)], batch_size=10))
            for _ in range(3):
                await call(producer.send_oneway(Message(topic, b"12345")))
            if hasattr(producer, "send_soon"):
                assert [future.result(30) for future in [producer.send_soon(Message(topic, b"1")) for _ in range(300)]]
            found = producer.statistics()
            soon = 300 if surface.name == "blocking" else 0
            assert (found.sent, found.one_way, found.failed, found.retries) == (653 + soon, 3, 0, 0)
            assert found.latency.count == 600 + 1 + 1 + 5 + soon
            assert 0 < found.latency.p50 <= found.latency.p90 <= found.latency.p99 <= found.latency.maximum
            assert found.topics[topic].sent == found.sent == sum(each.sent for each in found.brokers.values())
            await eventually(surface, lambda: producer.statistics().in_flight == 0)
        assert producer.statistics().sent == found.sent  # also when it is closed

    surface.run(main)


@pytest.mark.slow
def test_what_a_shared_client_has_open(surface, namesrv, topic):
    async def main():
        async with entered(surface.module.MQClientInstance(namesrv=namesrv)) as client:
            async with entered(surface.module.Producer("p", client=client)) as producer:
                await call(producer.send(Message(topic, b"1")))
                await eventually(surface, lambda: client.statistics().brokers_answering == 1)
                found = client.statistics()
                assert found.brokers == 1
                assert found.connections >= 2
                assert found.dials >= 2
                assert found.heartbeats >= 1
                assert found.failed_heartbeats == found.failed_dials == found.failed_requests == 0
                assert found.requests >= 2
                assert 0 < found.latency.p50 <= found.latency.maximum
                assert sum(each.requests for each in found.peers.values()) == found.requests
                for _ in range(1000):  # those over a connection beside that of the loop count too, where there is such
                    await call(producer.send(Message(topic, b"x" * 100)))
                peers = client.statistics().peers.values()
                assert max(each.sent_bytes for each in peers) > 1000 * 100
                assert max(each.received_bytes for each in peers) > 1000 * 50
        assert client.statistics().connections == 0

    surface.run(main)


def test_what_a_push_consumer_has_under_way(surface, namesrv, topic):
    seen = []

    def listener(message):
        seen.append(consumer.statistics())
        time.sleep(0.02)

    async def main():
        async with entered(surface.module.Producer("p", namesrv=namesrv)) as producer:
            for number in range(4):
                await call(producer.send(Message(topic, b"%d" % number)))
        async with entered(consumer):
            await eventually(surface, lambda: consumer.statistics().consumed == 4)
            await eventually(surface, lambda: consumer.statistics().topics[topic].listener.count == 4)
            found = consumer.statistics()
            assert 0.02 <= found.listener.p50 <= found.listener.maximum
            assert found.consumed_per_second > 0
            assert found.pulled_per_second > 0
            assert found.failed_per_second == 0
            assert (found.in_flight, found.held) == (0, 0)

    consumer = surface.module.PushConsumer(
        f"watched-{topic}", namesrv=namesrv, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    consumer.subscribe(topic, listener)
    surface.run(main)
    assert len(seen) == 4
    assert all(1 <= each.in_flight <= 4 and each.in_flight <= each.held for each in seen)
    assert all(each.topics[topic].in_flight == each.in_flight for each in seen)
