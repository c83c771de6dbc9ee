"""Bodies that are compressed on the way, in each of the three ways, from a producer to a listener."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from trio.testing import MockClock

from rocketpy.consumer.replay import replay_dead_letters
from rocketpy.errors import ConfigError
from rocketpy.message import Message
from rocketpy.producer import Producer
from rocketpy.results import RetryLater
from rocketpy.wire.compression import CompressionType, compression_of
from tests.system.consuming import Recorder, world

LARGE = b"all work and no play " * 1000


@pytest.mark.parametrize("kind", CompressionType, ids=lambda kind: kind.name)
async def test_P17_a_large_body_is_packed_on_the_way_and_a_small_one_is_not(
    kind: CompressionType, autojump_clock: MockClock
) -> None:
    async with world() as w:
        got = Recorder()
        consumer = w.consumer()
        consumer.subscribe("Orders", got)
        settings: dict[str, Any] = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
        async with Producer("packers", compress_type=kind.name, **settings) as producer, consumer:
            await producer.send(Message("Orders", LARGE))
            await producer.send(Message("Orders", LARGE[:4095]))
            await got.wait_count(2)
    large, small = sorted(got.messages, key=lambda message: -len(message.body))
    assert (large.body, small.body) == (LARGE, LARGE[:4095])
    assert large.sys_flag & 1
    assert compression_of(large.sys_flag) is kind
    assert large.store_size < len(LARGE) / 10
    assert not small.sys_flag & 1


async def test_a_missing_package_is_found_out_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "zstandard":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"install rocketpy with its extra \[zstd\]"):
        Producer("packers", namesrv="127.0.0.1:9876", compress_type="ZSTD")


@pytest.mark.parametrize("orderly", [False, True])
async def test_RT3_a_body_larger_than_consumers_may_send_becomes_a_dead_letter_and_can_be_replayed(
    autojump_clock: MockClock, orderly: bool
) -> None:
    body = bytes(5 << 20)
    async with world() as w:
        settings: dict[str, Any] = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
        consumer = w.consumer(orderly=orderly)
        consumer.subscribe("Orders", lambda message: RetryLater(-1))
        async with Producer("packers", max_message_size=8 << 20, **settings) as producer, consumer:
            await producer.send(Message("Orders", body))
            (dead,) = await w.cluster.wait_dead_letters("billing")
        assert dead.body == body
        assert (await replay_dead_letters("billing", **settings)).replayed == 1
