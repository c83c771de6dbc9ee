"""Subscriptions by many tags and long expressions: up to which bound they work, and what is seen beyond it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.instance import MQClientInstance
from rocketpy.consumer import LitePullConsumer, PushConsumer
from rocketpy.errors import BrokerError, FilterRefusedError, InvalidParameterError
from rocketpy.results import ConsumeFromWhere
from tests.system.consuming import Recorder, World, drain, wait_until, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
KINDS = pytest.mark.parametrize("kind", ["push", "lite"])
TOO_LONG = {"sql": "amount > 1 OR " * 2500 + "amount > 1"}


def tags(count: int) -> dict[str, str]:
    return {"tags": " || ".join(f"t{number}" for number in range(count))}


def subscribe(consumer: PushConsumer | LitePullConsumer, topic: str = "Orders", **filters: str) -> Recorder:
    got = Recorder()
    if isinstance(consumer, PushConsumer):
        consumer.subscribe(topic, got, **filters)
    else:
        consumer.subscribe(topic, **filters)
    return got


def consumer_of(w: World, kind: str, **settings: Any) -> PushConsumer | LitePullConsumer:
    make = w.consumer if kind == "push" else w.lite
    return make(consume_from_where=FIRST, **settings)


@KINDS
async def test_as_many_tags_as_a_broker_accepts(autojump_clock: MockClock, kind: str) -> None:
    async with world() as w:
        await w.send(2, tags="t2047")
        await w.send(2, start=2, tags="t2048")
        consumer = consumer_of(w, kind)
        got = subscribe(consumer, **tags(2048))
        async with consumer:
            if isinstance(consumer, LitePullConsumer):
                assert {message.body for message in await drain(consumer, 2)} == {b"0", b"1"}
            else:
                await got.wait_count(2)
            await trio.sleep(20)
            assert set(got.bodies) <= {b"0", b"1"}
            assert consumer.status().errors == {}


@KINDS
async def test_more_tags_than_a_broker_accepts_are_told_at_the_start(autojump_clock: MockClock, kind: str) -> None:
    async with world(2) as w:
        consumer = consumer_of(w, kind)
        subscribe(consumer, **tags(2049))
        with pytest.raises(InvalidParameterError, match="names at most 2048 tags, that for 'Orders' names 2049: use f"):
            await consumer.__aenter__()
        subscribe(consumer, **tags(300))
        async with consumer:
            assert await consumer.wait_assigned(5)


@pytest.mark.slow
@KINDS
async def test_more_tags_than_a_broker_accepts_stand_in_the_status(autojump_clock: MockClock, kind: str) -> None:
    async with world() as w:
        consumer = consumer_of(w, kind)
        subscribe(consumer, **tags(1))
        async with consumer:
            await consumer.wait_assigned(5)
            subscribe(consumer, **tags(2049))
            await wait_until(lambda: consumer.status().errors, within=1)
            await trio.sleep(300)
            (error,) = consumer.status().errors.values()
            assert isinstance(error, BrokerError)
            assert "names at most 2048 tags, that for 'Orders' names 2049" in error.remark
            assert consumer.assignment  # it is still a member
            subscribe(consumer, **tags(300))
            await wait_until(lambda: consumer.status().errors == {}, within=1)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [tags(2049), TOO_LONG], ids=["tags", "sql"])
async def test_one_groups_subscription_costs_a_shared_client_no_other_group(
    autojump_clock: MockClock, wrong: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async with world(topics=("Orders", "Refunds")) as w:
        settings = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
        async with MQClientInstance(**settings) as client:
            good, bad = (PushConsumer(group, client=client, consume_from_where=FIRST) for group in ("good", "bad"))
            got = subscribe(good)
            subscribe(bad, "Refunds")
            async with good, bad:
                await good.wait_assigned(5)
                subscribe(bad, "Refunds", **wrong)
                await wait_until(lambda: bad.status().errors, within=1)
                caplog.clear()
                for minute in range(5):
                    await w.send(1, start=minute)
                    await trio.sleep(60)
                    assert len(got.messages) == minute + 1
                    assert good.status().errors == {}
                    assert all(each.error is None for each in good.status().queues.values())
                assert got.times[-1] - got.times[0] == pytest.approx(240, abs=1)
                assert isinstance(bad.status().errors["Refunds"], FilterRefusedError if "sql" in wrong else BrokerError)
                # The broker still knows the group: a change of it is heard, and others share with it.
                subscribe(good, "Refunds")
                async with w.consumer("good") as another:
                    subscribe(another)
                    subscribe(another, "Refunds")
                    await wait_until(lambda: len(good.assignment) == len(another.assignment) == 4)
                assert "closed" not in caplog.text
