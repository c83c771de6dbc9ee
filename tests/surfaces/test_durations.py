"""Every call that may wait takes a timedelta, and refuses milliseconds, on every surface."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rocketpy import Message, MessageQueue
from rocketpy.errors import ConfigError, RequestTimeoutError
from tests.surfaces.surface import call, entered

SHORT = timedelta(milliseconds=10)


def test_producers_take_a_timedelta(surface, namesrv, topic):
    async def main():
        module, message, timeout = surface.module, Message(topic, b"x"), timedelta(seconds=10)
        async with (
            entered(module.Producer("p", namesrv=namesrv, send_timeout=timedelta(seconds=5))) as producer,
            entered(module.Producer("l", namesrv=namesrv, linger=SHORT)) as lingering,
        ):
            for sender in (producer, lingering):
                assert await call(sender.send(message, timeout=timeout))
            assert await call(producer.send_batch([message], timeout=timeout))
            assert (await call(producer.send_many([message], timeout=timeout))).messages == 1
            assert await call(producer.queues(topic, timeout=timeout))
            if surface.name == "blocking":
                assert producer.send_soon(message, timeout=timeout).result(timeout)
                assert producer.send_soon(message, timeout=timeout).exception(timeout) is None
            with pytest.raises(RequestTimeoutError):
                await call(producer.request(message, timeout=SHORT))

    surface.run(main)


@pytest.mark.parametrize(("timeout", "says"), [(3000, "not 3000"), (timedelta(hours=1), "not 3600")])
def test_milliseconds_are_refused_by_every_call_of_a_consumer(surface, namesrv, topic, timeout, says):
    async def main():
        module = surface.module
        async with (
            entered(module.PushConsumer("push", namesrv=namesrv)) as push,
            entered(module.LitePullConsumer("lite", namesrv=namesrv)) as lite,
            entered(module.PullConsumer("pull", namesrv=namesrv)) as pull,
        ):
            calls = [
                lambda: push.commit(timeout=timeout),
                lambda: push.lag(timeout=timeout),
                lambda: push.wait_assigned(timeout=timeout),
                lambda: lite.poll(timeout=timeout),
                lambda: lite.commit(timeout=timeout),
                lambda: lite.wait_assigned(timeout=timeout),
                lambda: lite.fetch_message_queues(topic, timeout=timeout),
                lambda: pull.pull(MessageQueue(topic, "broker-a", 0), 0, timeout=timeout),
                lambda: pull.fetch_message_queues(topic, timeout=timeout),
            ]
            for each in calls:
                with pytest.raises(ConfigError, match=f"^timeout must be at most 600 .* {says}; it counts in seconds"):
                    await call(each())

    surface.run(main)


def test_consumers_take_a_timedelta(surface, namesrv, topic):
    async def main():
        module, timeout = surface.module, timedelta(seconds=10)
        async with (
            entered(module.PushConsumer("push", namesrv=namesrv, pull_interval=SHORT)) as push,
            entered(module.LitePullConsumer("lite", namesrv=namesrv, poll_timeout=SHORT)) as lite,
            entered(module.PullConsumer("pull", namesrv=namesrv)) as pull,
            entered(module.Producer("p", namesrv=namesrv)) as producer,
        ):
            await call(producer.create_topic(topic, timeout=timeout))
            await call(push.commit(timeout=timeout))
            assert await call(push.lag(timeout=timeout)) == {}
            with pytest.raises(RequestTimeoutError, match=r"within 0.01 s"):
                await call(push.wait_assigned(timeout=SHORT))
            [first, *others] = await call(lite.fetch_message_queues(topic, timeout=timeout))
            await call(lite.assign([first, *others]))
            assert await call(lite.wait_assigned(timeout=timeout))
            assert await call(lite.poll(timeout=SHORT)) == []
            await call(lite.commit(timeout=timeout))
            assert (await call(pull.pull(first, 0, timeout=timeout))).messages == []

    surface.run(main)
