"""Push and lite pull consumers check their group, and warn of what loses messages; a sound group has no warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.rebalancing.strategies import AllocateByCircle
from rocketpy.results import ConsumeResult, MessageModel
from tests.consumer.test_membership import warnings
from tests.system.consuming import Recorder, World, queues_of, world

ALIKE: list[dict[str, Any]] = [{}, {"tags": "b || a"}, {"sql": "price > 1"}]
APART: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"tags": "a"}, {"tags": "b"}),
    ({"tags": "a"}, {"sql": "price > 1"}),
    ({}, {"sql": "price > 1"}),
]


async def look(members: list[Any], seconds: float = 200.0) -> None:
    """Have them look at each other for a while."""
    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(_be_there, member, seconds)


async def _be_there(member: Any, seconds: float) -> None:
    async with member:
        await trio.sleep(seconds)


@pytest.mark.slow
@pytest.mark.parametrize("wish", ALIKE)
@pytest.mark.parametrize("kind", ["consumer", "lite"])
async def test_members_of_one_kind_that_subscribe_alike_are_not_warned(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, kind: str, wish: dict[str, Any]
) -> None:
    async with world() as w:
        members = [getattr(w, kind)() for _ in range(3)]
        for each in members:
            each.subscribe("Orders", *((Recorder(),) if kind == "consumer" else ()), **wish)
        await look(members)
    assert warnings(caplog) == []


async def test_push_and_lite_pull_consumers_in_one_group_are_told_of_the_retry_topic(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A lite pull consumer gets the one queue of the retry topic and ignores it: what failed does not come again."""
    async with world() as w:
        push, lite = w.consumer(instance_name="z"), w.lite(instance_name="a")
        tried = Recorder(lambda message: ConsumeResult.RETRY)
        push.subscribe("Orders", tried)
        lite.subscribe("Orders")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look, [push, lite])
            await _fail_some(w, tried)
    told = warnings(caplog)
    assert told
    assert all("has push consumers and lite pull consumers" in each for each in told)
    assert {message.reconsume_times for message in tried.messages} == {0}


@pytest.mark.slow
@pytest.mark.parametrize("gap", [0.0, 10.0])
@pytest.mark.parametrize("kind", ["consumer", "lite"])
async def test_members_that_broadcast_beside_members_that_share_are_told(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, tmp_path: Path, kind: str, gap: float
) -> None:
    async with world() as w:
        shares = getattr(w, kind)()
        broadcasts = w.consumer(message_model=MessageModel.BROADCASTING, local_offset_store_dir=str(tmp_path))
        shares.subscribe("Orders", *((Recorder(),) if kind == "consumer" else ()))
        broadcasts.subscribe("Orders", Recorder())
        ids = [each.client.client_id for each in (shares, broadcasts)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look, [shares])
            await trio.sleep(gap)
            nursery.start_soon(look, [broadcasts])
    told = warnings(caplog)
    assert told
    for each in told:
        mine, theirs = ids if f"this one ({ids[0]}) has CLUSTERING, and another has BROADCASTING" in each else ids[::-1]
        assert f"this one ({mine}) has" in each
        assert f"The others: {theirs}" in each
    assert len(told) == len(set(told)) <= 2


async def test_members_that_differ_in_order_or_in_their_strategy_are_told_with_both_ids(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        members = [w.consumer(), w.consumer(orderly=True, allocate_strategy=AllocateByCircle())]
        for each in members:
            each.subscribe("Orders", Recorder())
        one, other = [each.client.client_id for each in members]
        await look(members)
    told = warnings(caplog)
    assert len([each for each in told if f"{other} does, and {one} does not" in each]) == 2
    assert (
        len([each for each in told if "different allocation strategies" in each and one in each and other in each]) == 2
    )
    assert len(told) == 4


async def _fail_some(w: World, tried: Recorder) -> None:
    await trio.sleep(30)
    await w.send(20)
    await trio.sleep(100)
    assert 0 < len(tried.messages) < 20


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), APART)
@pytest.mark.parametrize("with_push", [False, True])
async def test_members_that_are_polled_are_told_that_another_subscribes_differently(
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    one: dict[str, Any],
    other: dict[str, Any],
    with_push: bool,
) -> None:
    async with world() as w:
        lite = w.lite()
        lite.subscribe("Orders", **one)
        second: Any = w.consumer() if with_push else w.lite()
        second.subscribe("Orders", *((Recorder(),) if with_push else ()), **other)
        await look([lite, second])
    told = [each for each in warnings(caplog) if "has push consumers" not in each]
    assert told
    assert all("of Orders this one" in each and "RETRY" not in each for each in told)


@pytest.mark.parametrize("chosen", [False, True])
async def test_complaint_13_members_that_are_polled_are_told_of_another_with_their_id(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, chosen: bool
) -> None:
    async with world() as w:
        members = [w.lite(instance_name="x"), w.lite(instance_name="x")]
        for each in members:
            if chosen:
                each.assign(queues_of(4))
            else:
                each.subscribe("Orders")
        await look(members)
    told = warnings(caplog)
    assert told
    assert all("is used from several addresses" in each for each in told)


@pytest.mark.slow
async def test_a_member_that_chooses_its_queues_may_filter_as_it_likes(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers hear of no subscription from it, so that it overwrites nobody's."""
    async with world() as w:
        chooses, push = w.lite(), w.consumer(allocate_strategy="by_circle")
        chooses.assign(queues_of(2), tags="a")
        push.subscribe("Orders", Recorder(), tags="b")
        await look([chooses, push])
    assert warnings(caplog) == []
