"""`request` on every surface, with a consumer of the same surface that replies, against a real broker over TCP."""

from __future__ import annotations

import math
import threading
from concurrent.futures import Future

import pytest

import rocketpy
import rocketpy.sync
from rocketpy import ClientClosedError, ConfigError, Message, ReplyTimeoutError, create_reply_message
from tests.surfaces.surface import call, entered
from tests.surfaces.test_lite_figures import eventually

SHORTLY = 2.0
"""Seconds after which nobody replies. The sending is within them too: if that takes longer, another error is raised."""


@pytest.fixture
def given_up():
    """Set when the request has timed out that is to have a late reply."""
    return threading.Event()


@pytest.fixture
def replying(cluster, namesrv, topic, given_up):
    """A blocking consumer that replies to everything, in a thread of its own."""
    with (
        rocketpy.sync.Producer("replies", namesrv=namesrv) as producer,
        rocketpy.sync.PushConsumer("repliers", namesrv=namesrv) as consumer,
    ):
        producer.create_topic(topic, queues=4)

        def reply(message):
            if message.body == b"late":
                assert given_up.wait(10)
            for _ in range({b"silence": 0, b"twice": 2}.get(message.body, 1)):
                producer.send(create_reply_message(message, b"re: " + message.body))

        consumer.subscribe(topic, reply)
        consumer.wait_assigned(10)
        yield topic


def test_S18_a_request_gets_its_reply(surface, namesrv, replying):
    async def main():
        async with entered(surface.module.Producer("pg", namesrv=namesrv)) as producer:
            first = await call(producer.request(Message(replying, b"one"), timeout=10))
            queue = (await call(producer.queues(replying)))[1]
            second = await call(producer.request(Message(replying, b"two"), queue=queue, timeout=10))
            third = await call(
                producer.request(
                    Message(replying, b"three"), selector=lambda q, m, arg: q[arg], arg=0, timeout=math.inf
                )
            )
            return [each.body for each in (first, second, third)]

    assert surface.run(main) == [b"re: one", b"re: two", b"re: three"]


@pytest.mark.slow
@pytest.mark.waits("until requests that nobody replies to have timed out")
def test_S18_a_request_without_a_reply_times_out_and_what_is_wrong_is_refused(surface, namesrv, replying):
    async def main():
        async with entered(surface.module.Producer("pg", namesrv=namesrv)) as producer:
            await call(producer.send(Message(replying, b"silence")))  # routes and connections take time of their own
            with pytest.raises(ReplyTimeoutError, match="within 2 s"):
                await call(producer.request(Message(replying, b"silence"), timeout=SHORTLY))
            with pytest.raises(ConfigError, match="expected a Message"):
                await call(producer.request("x"))
            with pytest.raises(ConfigError, match="timeout must be seconds or a timedelta, more than 0"):
                await call(producer.request(Message(replying, b"x"), timeout=0))
        with pytest.raises(ClientClosedError):
            await call(producer.request(Message(replying, b"x")))

    surface.run(main)


@pytest.mark.slow
@pytest.mark.waits("until a request has timed out before its reply arrives")
def test_S18_a_client_counts_replies_and_those_that_come_late_or_twice(surface, namesrv, replying, given_up):
    def counts(client):
        found = client.statistics()
        return found.replies_awaited, found.replies, found.late_replies, found.unknown_replies

    async def main():
        async with entered(surface.module.MQClientInstance(namesrv=namesrv)) as client:
            async with entered(surface.module.Producer("pg", client=client)) as producer:
                await call(producer.request(Message(replying, b"twice"), timeout=10))
                await eventually(surface, lambda: counts(client) == (0, 1, 0, 1))
                with pytest.raises(ReplyTimeoutError):
                    await call(producer.request(Message(replying, b"late"), timeout=SHORTLY))
                given_up.set()
                await eventually(surface, lambda: counts(client) == (0, 1, 1, 1))

    surface.run(main)


@pytest.mark.parametrize("kind", ["trio", "asyncio"])
def test_S18_an_async_listener_replies(kind, namesrv, cluster, topic):
    from tests.surfaces.surface import SURFACES

    surface = SURFACES[kind]

    async def main():
        module = surface.module
        async with module.Producer("pg", namesrv=namesrv) as producer:
            await producer.create_topic(topic, queues=2)

            async def reply(message):
                await producer.send(module.create_reply_message(message, f"re: {message.body.decode()}"))

            consumer = module.PushConsumer("repliers", namesrv=namesrv)
            consumer.subscribe(topic, reply)
            async with consumer:
                return (await producer.request(Message(topic, b"x"), timeout=10)).body

    assert surface.run(main) == b"re: x"


# --- futures -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.waits("until requests that nobody replies to have timed out")
def test_S18_futures_hold_replies_and_callbacks_run_in_their_own_thread(namesrv, replying):
    threads: list[str] = []
    seen = threading.Event()
    with rocketpy.sync.Producer("pg", namesrv=namesrv) as producer:

        def done(future: Future[rocketpy.MessageExt]) -> None:
            threads.append(threading.current_thread().name)
            seen.set()

        producer.send(Message(replying, b"silence"))  # as above
        futures = [producer.request_soon(Message(replying, b"%d" % number), timeout=10) for number in range(50)]
        silent = producer.request_soon(Message(replying, b"silence"), timeout=SHORTLY)
        silent.add_done_callback(done)
        assert not silent.cancel()
        assert [future.result().body for future in futures] == [b"re: %d" % number for number in range(50)]
        with pytest.raises(ReplyTimeoutError):
            silent.result()
        assert seen.wait(10)
        assert threads == ["rocketpy-callbacks-pg"]
        with pytest.raises(ConfigError):
            producer.request_soon(Message(replying, b"x"), queue="nowhere")
    with pytest.raises(ClientClosedError):
        producer.request_soon(Message(replying, b"x"))


def test_S18_closing_waits_for_the_replies_of_futures(namesrv, replying):
    with rocketpy.sync.Producer("pg", namesrv=namesrv) as producer:
        future = producer.request_soon(Message(replying, b"x"), timeout=10)
    assert future.result(0).body == b"re: x"


@pytest.mark.waits("until requests that nobody replies to have timed out")
def test_S18_an_exception_answers_futures_within_exit_timeout(namesrv, replying):
    futures: list[Future[rocketpy.MessageExt]] = []
    with pytest.raises(ZeroDivisionError):
        _fail_in_block(namesrv, replying, futures)
    with pytest.raises(ClientClosedError, match="before a reply"):
        futures[0].result(5)


def _fail_in_block(namesrv, topic, futures):
    with rocketpy.sync.Producer("pg", namesrv=namesrv, exit_timeout=0) as producer:
        futures.append(producer.request_soon(Message(topic, b"silence"), timeout=60))
        raise ZeroDivisionError


@pytest.mark.slow
@pytest.mark.waits("until requests that nobody replies to have timed out")
def test_S18_requests_wait_for_room_apart_from_sends(namesrv, replying):
    """Two requests that nobody replies to take all the room there is for requests; sends have their own."""
    with rocketpy.sync.Producer("pg", namesrv=namesrv, back_pressure_for_async_send_num=2) as producer:
        producer.send(Message(replying, b"silence"))  # as above
        silent = [producer.request_soon(Message(replying, b"silence"), timeout=SHORTLY) for _ in range(2)]
        assert producer.send_soon(Message(replying, b"silence")).result(5)
        third = producer.request_soon(Message(replying, b"x"), timeout=10)
        assert any(future.done() for future in silent)
        assert third.result().body == b"re: x"
        for future in silent:
            assert isinstance(future.exception(), ReplyTimeoutError)


def test_S18_threads_ask_together(namesrv, replying):
    replies: list[bytes] = []
    with rocketpy.sync.Producer("pg", namesrv=namesrv) as producer:
        threads = [
            threading.Thread(target=lambda: replies.append(producer.request(Message(replying, b"x"), timeout=10).body))
            for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert replies == [b"re: x"] * 16
