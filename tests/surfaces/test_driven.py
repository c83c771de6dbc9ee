"""What brokers have a consumer do, on every surface: listeners run where listeners run. And dead letters, likewise."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import trio
import trio.lowlevel

from rocketpy import ConfigError, ConsumeFromWhere, Message, RetryLater
from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.enums import CMResult
from tests.interop import probe
from tests.surfaces.surface import call, entered

pytestmark = pytest.mark.waits("waits for threads and loops of other kinds")

SLEEP = {"trio": trio.sleep, "asyncio": asyncio.sleep, "blocking": time.sleep}
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def eventually(surface, condition):
    """Wait on this surface until something is so."""
    end = time.monotonic() + 30
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come to that"
        await call(SLEEP[surface.name](0.01))
    return found


class Asking:
    """An administrator in a thread of its own."""

    def __init__(self, address):
        self.address = address
        self.pool = ThreadPoolExecutor(1)

    def ask(self, code, **fields):
        return self.pool.submit(probe.call, self.address, code, fields)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_PC7_a_message_is_consumed_where_listeners_run(surface, namesrv, topic, kind):
    heard = []

    def plain(message):
        heard.append((message, threading.get_ident()))

    async def waiting(message):
        if surface.name == "asyncio":
            await asyncio.sleep(0)
        else:
            await trio.lowlevel.checkpoint()
        plain(message)

    async def main():
        here, group = threading.get_ident(), f"driven-{topic}"
        async with entered(surface.module.Producer("p", namesrv=namesrv)) as producer:
            sent = await call(producer.send(Message(topic, b"x")))
        consumer = surface.module.PushConsumer(group, namesrv=namesrv, consume_from_where=FIRST)
        consumer.subscribe(topic, plain if kind == "plain" else waiting)
        async with entered(consumer):
            [(first, _)] = await eventually(surface, lambda: heard)
            admin = Asking(first.store_host)
            fields = {"consumerGroup": group, "clientId": consumer.status().client_id}
            answer = admin.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, msgId=sent.offset_message_id, **fields)
            await eventually(surface, answer.done)
            told = ConsumeMessageDirectlyResult.decode(answer.result().body)
            assert told.consume_result is CMResult.CR_SUCCESS
            assert len(heard) == 2
            threads = {ident for _, ident in heard}
            in_the_users_loop = kind == "async" and surface.name != "blocking"
            assert (threads == {here}) == in_the_users_loop
            info = admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, jstackEnable="true", **fields)
            await eventually(surface, info.done)
            running = ConsumerRunningInfo.decode(info.result().body)
            assert "rocketpy.consumer." in (running.jstack or "")
            assert running.status_table[topic].consume_ok_tps > 0
            assert consumer.statistics().topics[topic].consumed_per_second > 0

    surface.run(main)


def test_dead_letters_are_replayed(surface, namesrv, topic):
    heard, healthy = [], threading.Event()

    def listener(message):
        heard.append(message)
        return None if healthy.is_set() else RetryLater(-1)

    async def main():
        group, replay = f"dead-{topic}", surface.module.replay_dead_letters
        asked = []

        def wanted(message):
            asked.append((message.topic, threading.get_ident()))
            return message.body != b"2"

        async with entered(surface.module.Producer("p", namesrv=namesrv)) as producer:
            for number in range(4):
                await call(producer.send(Message(topic, b"%d" % number)))
        consumer = surface.module.PushConsumer(group, namesrv=namesrv, consume_from_where=FIRST)
        consumer.subscribe(topic, listener)
        async with entered(consumer):
            await eventually(surface, lambda: consumer.statistics().sent_back == 4)
            healthy.set()
            heard.clear()
            found = await call(replay(group, namesrv=namesrv, dry_run=True))
            assert (found.replayed, heard) == (4, [])
            with pytest.raises(ZeroDivisionError) as caught:
                await call(replay(group, namesrv=namesrv, wanted=lambda message: 1 / 0))
            assert "0 messages sent, 0 skipped, 4 left for the next replay" in caught.value.__notes__[0]
            async with entered(surface.module.MQClientInstance(namesrv=namesrv)) as client:
                done = await call(replay(group, client=client, wanted=wanted))
                with pytest.raises(ConfigError, match="already has its own settings"):
                    await call(replay(group, client=client, namesrv=namesrv))
            assert (done.replayed, done.skipped, done.topics) == (3, 1, {topic: 3})
            assert asked == [(topic, threading.get_ident())] * 4
            await eventually(surface, lambda: len(heard) >= 3)
            assert (await call(replay(group, namesrv=namesrv))).replayed == 0
        assert sorted(message.body for message in heard) == [b"0", b"1", b"3"]

    surface.run(main)


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"wanted": "all"}, {"client": "theirs"}], ids=str)
def test_a_replay_that_cannot_be_is_refused(surface, wrong):
    async def main():
        with pytest.raises(ConfigError):
            await call(surface.module.replay_dead_letters("g", **{"namesrv": "127.0.0.1:1"} | wrong))

    surface.run(main)
