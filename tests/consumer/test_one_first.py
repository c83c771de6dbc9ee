"""Commits of many queues: one of each topic at a broker has its answer before the others are sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.api import offset as offset_api
from rocketpy.client.instance import MQClientInstance
from rocketpy.consumer.offsets.offset_store import RemoteBrokerOffsetStore
from rocketpy.consumer.offsets.one_first import PATIENCE, one_first
from rocketpy.consumer.offsets.queue_offsets import QueueOffsets
from rocketpy.message import MessageQueue
from tests.consumer.brokers import queue, world

QUEUES = [MessageQueue(topic, broker, number) for topic in "TU" for broker in ("a", "b") for number in range(3)]
ANSWERS_WITHIN = {"a": 0.1, "b": 3.0}
"""Seconds of each broker; the second is not waited for that long."""


async def test_one_of_each_topic_at_a_broker_goes_first(autojump_clock: MockClock) -> None:
    began: dict[MessageQueue, float] = {}
    start = trio.current_time()

    async def tell(queue: MessageQueue) -> None:
        began[queue] = trio.current_time() - start
        await trio.sleep(ANSWERS_WITHIN[queue.broker_name])

    await one_first(tell, QUEUES)
    waits = {name: min(seconds, PATIENCE) for name, seconds in ANSWERS_WITHIN.items()}
    assert began == pytest.approx({each: waits[each.broker_name] if each.queue_id else 0.0 for each in QUEUES})
    assert trio.current_time() - start == pytest.approx(PATIENCE + 3.0)


async def test_nothing_is_told_of_no_queues() -> None:
    async def tell(queue: MessageQueue) -> None:
        raise AssertionError(queue)

    await one_first(tell, [])


@pytest.mark.parametrize("way", ["commit", "commit_all", "of_each"])
async def test_what_waits_for_answers_commits_one_first(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    began: dict[int, float] = {}

    async def update(*words: object, **_: object) -> bool:
        [told] = [word for word in words if isinstance(word, MessageQueue)]
        began[told.queue_id] = trio.current_time()
        await trio.sleep(0.1)
        return True

    monkeypatch.setattr(offset_api, "update_consumer_offset", update)
    async with world(queues=3) as w, MQClientInstance(namesrv=w.name_server.address, network=w.network) as client:
        await client.routes.ensure_subscribe("Orders")
        queues = [queue(number) for number in range(3)]
        store = RemoteBrokerOffsetStore(client, "billing")
        for each in queues:
            store.update(each, 5)
        ways: dict[str, Callable[[], object]] = {
            "commit": lambda: store.commit(queues),
            "commit_all": lambda: store.commit_all(queues, deadline=trio.current_time() + 9),
            "of_each": lambda: QueueOffsets(client, "billing").of_each(update, queues, commits=True),
        }
        await ways[way]()  # type: ignore[misc]
    assert [at - began[0] for at in began.values()] == pytest.approx([0.0, 0.1, 0.1])
