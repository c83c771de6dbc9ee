"""What goes wrong with a message that lingers: it hears of it, the others do not, and closing waits for nobody."""

from __future__ import annotations

import pytest
import trio

from rocketpy.errors import ClientClosedError, ConfigError, ConnectionLostError
from rocketpy.message import Message
from rocketpy.producer import accumulator
from rocketpy.producer.batching import Batch
from tests.producer.test_auto_batching import LINGER, BatchBroker


@pytest.mark.parametrize("flag", [2**31, -(2**31) - 1, None, "x", 1.5, True], ids=repr)
@pytest.mark.parametrize("linger", [None, LINGER])
async def test_S17_a_flag_that_is_none_is_refused_at_once(autojump_clock, opened, flag, linger):
    wrong = Message("T", b"x")
    wrong.flag = flag
    async with opened(BatchBroker(), linger=linger) as (producer, _):
        with pytest.raises(ConfigError, match="the flag of a message is a whole number"):
            await producer.send(wrong)
        wrong.flag = 2**31 - 1
        await producer.send(wrong)


async def test_S17_a_sharding_key_that_is_no_text_is_refused_at_once(autojump_clock, opened):
    wrong = Message("T", b"x")
    wrong.wire_properties["__SHARDINGKEY"] = 7
    async with opened(BatchBroker(), linger=LINGER) as (producer, _):
        with pytest.raises(ConfigError, match="the sharding key of a message is a str"):
            await producer.send(wrong)
        await producer.send(Message("T", b"x"))


@pytest.mark.parametrize("name", ["outgoing", "sharding_queue"])
async def test_S17_whatever_goes_wrong_on_the_way_reaches_the_senders(autojump_clock, opened, monkeypatch, name):
    """Closing does not wait for such messages either."""

    def fail(*_):
        raise RuntimeError("a bug")

    key = "k" if name == "sharding_queue" else None
    async with opened(BatchBroker(), linger=LINGER) as (producer, _):
        await producer.send(Message("T", b"before"))
        with monkeypatch.context() as patch:
            patch.setattr(Batch, name, fail) if key is None else patch.setattr(accumulator, name, fail)
            for _ in range(2):
                with pytest.raises(RuntimeError, match="a bug"):
                    await producer.send(Message("T", b"x", sharding_key=key))
        await producer.send(Message("T", b"after", sharding_key=key))
    assert trio.current_time() < 1


@pytest.mark.parametrize(("topic", "key"), [("T", None), ("T", "k"), ("Unknown", None), ("Unknown", "k")])
async def test_S17_who_waited_for_room_while_the_producer_was_closed_hears_of_it(
    autojump_clock, nursery, opened, topic, key
):
    heard = []

    async def send(producer, message):
        with pytest.raises((ClientClosedError, ConnectionLostError)):
            await producer.send(message)
        heard.append(message)

    async def run():
        async with opened(BatchBroker(script=["silence"]), **settings) as (producer, _):
            nursery.start_soon(send, producer, Message("T", b"takes all"))
            await trio.sleep(0.1)
            nursery.start_soon(send, producer, Message(topic, b"waits for room", sharding_key=key))
            await trio.sleep(0.1)
            raise ZeroDivisionError

    settings = {"linger": LINGER, "batch_max_bytes": 10, "total_batch_max_bytes": 10}
    with pytest.raises(ZeroDivisionError):
        await run()
    await trio.sleep(0.1)
    assert len(heard) == 2
