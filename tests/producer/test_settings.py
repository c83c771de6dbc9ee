"""Settings of producers that are read deep inside: each changes what it says."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rocketpy.message import Message
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
