"""Settings of producers that are read deep inside: each changes what it says."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import Message
from rocketpy.producer import Producer
from tests.producer.brokers import SendBroker

FLEVEL = {1: 0x01, 5: 0x5E, 9: 0xDA}
"""The second byte of a zlib stream tells how hard it was compressed."""


@pytest.mark.parametrize("level", FLEVEL)
async def test_compress_level(opened, autojump_clock: MockClock, level: int) -> None:
    broker = SendBroker()
    async with opened(broker, compress_level=level, compress_body_over=100) as (producer, _):
        await producer.send(Message("T", b"x" * 100))
        await producer.send(Message("T", b"x" * 99))
    assert [taken.body[:2] for taken in broker.taken] == [bytes([0x78, FLEVEL[level]]), b"xx"]


async def test_create_topic_key_and_default_topic_queue_nums(opened, autojump_clock: MockClock) -> None:
    broker = SendBroker()
    async with opened(broker, create_topic_key="Model", default_topic_queue_nums=7) as (producer, _):
        await producer.send(Message("T", b"x"))
    header = broker.taken[0].header
    assert (header.default_topic, header.default_topic_queue_nums) == ("Model", 7)


@pytest.mark.parametrize(("version", "kind", "warned"), [(401, "LZ4", 1), (413, "ZSTD", 0), (401, "ZLIB", 0)])
async def test_compress_type_warns_once_of_a_broker_before_rocketmq_5(
    opened, autojump_clock: MockClock, caplog, version, kind, warned
) -> None:
    broker = SendBroker()
    broker.version = version
    async with opened(broker, compress_type=kind, heartbeat_broker_interval=5) as (producer, _):
        await producer.send(Message("T", b"x" * 5000))
        await trio.sleep(60)
    said = [each.getMessage() for each in caplog.records if "older than RocketMQ 5" in each.getMessage()]
    assert len(said) == warned
    if said:
        assert "broker-a" in said[0]
        assert "cannot unpack LZ4: use compress_type='ZLIB'" in said[0]


async def test_compress_type_warns_of_a_broker_that_a_shared_client_knows_already(
    opened, autojump_clock: MockClock, caplog
) -> None:
    broker = SendBroker()
    broker.version = 401
    async with opened(broker) as (first, _):
        await first.send(Message("T", b"x"))
        await trio.sleep(1)
        async with Producer("second", client=first.client, compress_type="ZSTD"):
            pass
        assert caplog.text.count("cannot unpack ZSTD") == 1
        assert not first.client.heartbeats.watchers, "a producer that has closed is not told any more"
