"""Bodies of the largest size, and of one byte more, for each type of message and as far as a listener."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy import ConfigError, LocalTransactionState, MessageIllegalError
from rocketpy.message import Message, MessageExt
from rocketpy.producer import Producer, TransactionProducer
from tests.system.consuming import Recorder, World, world

LARGEST = 4 * 1024 * 1024
TYPES: dict[str, dict[str, Any]] = {
    "normal": {},
    "in order": {"sharding_key": "k"},
    "a delay level": {"delay_level": 1},
    "a timer": {"delay": 1.0},
    "a transaction": {},
}


async def _never_asked(message: MessageExt) -> LocalTransactionState:
    raise AssertionError(message)


async def _commit(message: Message, arg: object) -> LocalTransactionState:
    return LocalTransactionState.COMMIT


async def _send(w: World, type_: str, size: int, **settings: Any) -> None:
    settings |= {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
    message = Message("Orders", b"x" * size, **TYPES[type_])
    # It is not packed: what would be stored then is small.
    settings |= {"compress_body_over": 2 * LARGEST, "send_timeout": 10.0}
    if type_ == "a transaction":
        async with TransactionProducer("p", checker=_never_asked, executor=_commit, **settings) as transactions:
            await transactions.send_in_transaction(message)
    else:
        async with Producer("p", **settings) as producer:
            await producer.send(message)


@pytest.mark.parametrize("type_", TYPES)
async def test_S5_the_largest_body_goes_through_and_one_byte_more_is_refused_by_both_ends(
    autojump_clock: MockClock, type_: str
) -> None:
    got = Recorder()
    async with world() as w, w.consumer() as consumer:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        await _send(w, type_, LARGEST)
        await got.wait_count(1)
        assert [len(message.body) for message in got.messages] == [LARGEST]
        with pytest.raises(ConfigError, match=f"the limit is {LARGEST}"):
            await _send(w, type_, LARGEST + 1)
        with pytest.raises(MessageIllegalError):
            await _send(w, type_, LARGEST + 1, max_message_size=2 * LARGEST)
        await trio.sleep(5)
        assert len(got.messages) == 1
