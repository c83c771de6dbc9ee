"""What status() tells is so now: an error that is over is gone, and a new subscription is not shared out yet."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.system.consuming import Recorder, World, wait_until, world


def made(kind: str, w: World) -> Any:
    consumer: Any = w.consumer() if kind == "push" else w.lite()
    subscribe(consumer, "Orders")
    return consumer


def subscribe(consumer: Any, topic: str) -> None:
    listener = () if consumer.__class__.__name__ == "LitePullConsumer" else (Recorder(),)
    consumer.subscribe(topic, *listener)


def errors(consumer: Any) -> list[Exception]:
    return [each.error for each in consumer.status().queues.values() if each.error is not None]


@pytest.mark.parametrize("kind", ["push", "lite"])
async def test_an_error_is_gone_when_the_broker_holds_pulls_again(autojump_clock: MockClock, kind: str) -> None:
    async with world(queues=1) as w, made(kind, w) as consumer:
        await consumer.wait_assigned(10)
        await w.cluster.kill_broker(0)
        await wait_until(lambda: errors(consumer))
        for _ in range(40):
            await trio.sleep(0.25)
            assert errors(consumer), "it stays as long as the broker is away"
        await w.cluster.start_broker(0)
        back = trio.current_time()
        await wait_until(lambda: not errors(consumer))
        assert trio.current_time() - back < 8, "the pull is held for 15 seconds"


@pytest.mark.parametrize("kind", ["push", "lite"])
async def test_a_consumer_is_not_balanced_while_a_subscription_is_new(autojump_clock: MockClock, kind: str) -> None:
    async with world(topics=("Orders", "Bills")) as w, made(kind, w) as consumer:
        await consumer.wait_assigned(10)
        await wait_until(lambda: consumer.status().balanced)
        subscribe(consumer, "Bills")
        assert not consumer.status().balanced
        await wait_until(lambda: consumer.status().balanced)
        assert {queue.topic for queue in consumer.assignment} == {"Orders", "Bills"}
        consumer.unsubscribe("Bills")
        assert not consumer.status().balanced
        await wait_until(lambda: consumer.status().balanced)
