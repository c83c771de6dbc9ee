"""Messages that go back as new ones: bodies that nobody here can unpack travel as they are, and any broker will do."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt, PropertyName
from rocketpy.results import ConsumeFromWhere, RetryLater
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.compression import CompressionType, compression_flag, decompress
from rocketpy.wire.sysflag import COMPRESSED
from tests.consumer.brokers import PullBroker, World, world
from tests.system.test_orderly_locks import Locks

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
DAMAGED = [(b"no zlib", COMPRESSED), (b"no zstd", compression_flag(CompressionType.ZSTD)), (b"?", COMPRESSED | 0x500)]


class Bodies:
    """Remembers the bodies of messages that a broker gets, and their flag words."""

    def __init__(self, broker: PullBroker) -> None:
        self.got: list[tuple[bytes, int]] = []
        self._take = broker.send
        self._broker = broker
        broker.on(RequestCode.SEND_MESSAGE_V2, self.send)

    def send(self, connection: Any, request: RemotingCommand) -> RemotingCommand:
        answer = self._take(connection, request)
        self.got.append((request.body, self._broker.sent[-1].sys_flag))
        return answer


def read(message: MessageExt) -> object:
    return RetryLater(-1) if message.body == b"" else None


def consumer_of(w: World, **settings: Any) -> Any:
    consumer = w.consumer(consume_from_where=FIRST, **settings)
    consumer.subscribe("Orders", read)
    return consumer


@pytest.mark.parametrize(("body", "flag"), DAMAGED)
async def test_threat_M4_a_broker_that_takes_nothing_back_gets_a_damaged_body_as_it_is_in_a_new_message(
    autojump_clock: MockClock, body: bytes, flag: int
) -> None:
    async with world() as w:
        bodies = Bodies(w.broker)
        w.broker.send_back_code = ResponseCode.SYSTEM_ERROR
        w.broker.store(1)
        w.broker.store(1, body=body, sys_flag=flag)
        w.broker.store(1)
        async with consumer_of(w) as consumer:
            await trio.sleep(6)
            assert bodies.got == [(body, flag)]
            assert consumer.statistics().sent_back == 1
            assert w.broker.offsets["Orders", 0] == 3


@pytest.mark.parametrize(("body", "flag"), DAMAGED)
async def test_threat_M4_a_damaged_body_becomes_a_dead_letter_and_holds_up_no_orderly_queue(
    autojump_clock: MockClock, body: bytes, flag: int
) -> None:
    async with world() as w:
        Locks(w.broker)
        bodies = Bodies(w.broker)
        w.broker.store(1)
        w.broker.store(1, body=body, sys_flag=flag)
        w.broker.store(1)
        async with consumer_of(w, orderly=True, max_reconsume_times=0) as consumer:
            await trio.sleep(6)
            assert bodies.got == [(body, flag)]
            assert consumer.statistics().sent_back == 1
            assert w.broker.offsets["Orders", 0] == 3


async def test_threat_M4_a_retry_that_names_no_origin_is_put_off_with_its_damaged_body(
    autojump_clock: MockClock,
) -> None:
    async with world() as w:
        Locks(w.broker)
        bodies = Bodies(w.broker)
        w.broker.store(1, topic="%RETRY%billing", body=b"no zlib", sys_flag=COMPRESSED)
        async with consumer_of(w, orderly=True):
            await trio.sleep(6)
            assert bodies.got == [(b"no zlib", COMPRESSED)]
            assert w.broker.offsets["%RETRY%billing", 0] == 1


@pytest.mark.parametrize(("body", "flag"), [(zlib.compress(b""), COMPRESSED), (b"", 0)], ids=["packed", "stored"])
async def test_an_empty_body_travels_packed_as_brokers_refuse_messages_without_one(
    autojump_clock: MockClock, body: bytes, flag: int
) -> None:
    async with world() as w:
        Locks(w.broker)
        bodies = Bodies(w.broker)
        w.broker.store(1, body=body, sys_flag=flag)
        w.broker.store(1)
        async with consumer_of(w, orderly=True) as consumer:
            await trio.sleep(6)
            [(sent, its_flag)] = bodies.got
            assert sent
            assert decompress(sent, its_flag) == b""
            assert consumer.statistics().sent_back == 1
            assert w.broker.offsets["Orders", 0] == 2


# --- to any broker -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [{}, {PropertyName.MESSAGE_TYPE: "reply"}], ids=["", "reply"])
async def test_what_has_a_sharding_key_or_is_a_reply_goes_back_to_any_broker_that_takes_it(
    autojump_clock: MockClock, properties: dict[str, str]
) -> None:
    async with world("broker-a", "broker-b") as w:
        sick, healthy = w.brokers
        for broker in w.brokers:
            Locks(broker)
        sick.send_code = ResponseCode.SYSTEM_ERROR
        for number in range(6):
            healthy.store(
                1,
                body=zlib.compress(b""),
                sys_flag=COMPRESSED,
                properties={PropertyName.SHARDING_KEY: f"k{number}"} | properties,
            )
        async with consumer_of(w, orderly=True) as consumer:
            await trio.sleep(6)
            assert consumer.statistics().sent_back == 6
            assert healthy.offsets["Orders", 0] == 6
        sent = healthy.sent_properties()
        assert [each[PropertyName.SHARDING_KEY] for each in sent] == [f"k{number}" for number in range(6)]
        assert [each | properties for each in sent] == sent
