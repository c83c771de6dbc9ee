"""A bug in the background is heard by everybody who waits for what the background does; in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.instance import MQClientInstance
from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import ServiceCrashedError
from rocketpy.results import ConsumeFromWhere
from tests.consumer.brokers import World, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def bug(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("a bug")


def take_messages(consumer: PushConsumer, w: World) -> None:
    """Consume in such a way that those who wait for queues go on waiting."""
    assert consumer._running is not None
    consumer._running.assignment.queues = lambda topic=None: ()  # type: ignore[method-assign, assignment, misc]
    consumer.subscribe("Orders", lambda message: None)
    w.broker.store(1)


def in_pulling(consumer: PushConsumer, w: World) -> None:
    assert consumer._running is not None
    consumer._running.consume.submit = bug  # type: ignore[method-assign]
    take_messages(consumer, w)


def in_consuming(consumer: PushConsumer, w: World) -> None:
    assert consumer._running is not None
    consumer._running.consume._dealt_with = bug  # type: ignore[method-assign]
    take_messages(consumer, w)


def in_sharing(consumer: PushConsumer, w: World) -> None:
    assert consumer._running is not None
    consumer._running.rebalance._share = bug  # type: ignore[method-assign]
    consumer.subscribe("Orders", lambda message: None)


def in_committing(consumer: PushConsumer, w: World) -> None:
    assert consumer._running is not None
    consumer._running._offsets.persist = bug  # type: ignore[method-assign]


def in_heartbeats(consumer: PushConsumer, w: World) -> None:
    consumer.client.heartbeats.send_all = bug  # type: ignore[method-assign]
    consumer.client.heartbeats.send_soon()


def in_routes(consumer: PushConsumer, w: World) -> None:
    consumer.client.routes.refresh_all = bug  # type: ignore[method-assign]


SERVICES = [in_pulling, in_sharing, in_committing, in_consuming, in_heartbeats, in_routes]
Break = Callable[[PushConsumer, World], None]


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("break_it", SERVICES)
@pytest.mark.parametrize("shared", [False, True])
async def test_everybody_who_waits_hears_of_a_crash(
    autojump_clock: MockClock, break_it: Break, shared: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w, trio.open_nursery() as nursery:
        opened, heard = trio.Event(), []
        client = MQClientInstance(namesrv=w.name_server.address, network=w.network) if shared else None
        if client is None:
            consumer = w.consumer(consume_from_where=FIRST)
        else:
            consumer = PushConsumer("billing", client=client, consume_from_where=FIRST)

        async def hold_client(task_status: trio.TaskStatus[None]) -> None:
            assert client is not None
            try:
                async with client:
                    task_status.started()
                    await trio.sleep(300)
            except ServiceCrashedError:
                heard.append("client")

        async def hold() -> None:
            try:
                async with consumer:
                    opened.set()
                    await trio.sleep_forever()
            except ServiceCrashedError:
                heard.append("block")

        async def hear(who: str, wait: Callable[[], Any]) -> None:
            with pytest.raises(ServiceCrashedError, match="a bug") as raised:
                await wait()
            assert raised.value.__cause__ is not None
            heard.append(who)

        if shared:
            await nursery.start(hold_client)
        nursery.start_soon(hold)
        await opened.wait()
        # Nothing is subscribed yet, so that nobody gets a queue.
        nursery.start_soon(hear, "run_forever", consumer.run_forever)
        nursery.start_soon(hear, "wait_assigned", consumer.wait_assigned)
        await trio.testing.wait_all_tasks_blocked()
        break_it(consumer, w)
        with trio.move_on_after(60):
            while not {"block", "run_forever", "wait_assigned"} <= set(heard):  # noqa: ASYNC110
                await trio.sleep(0.1)
        assert {"block", "run_forever", "wait_assigned"} <= set(heard)
        crash = consumer.status().crash
        assert crash is not None
        assert "a bug" in str(crash)
        assert consumer.status().state == "closed"
        assert len(errors(caplog)) == 1
        assert "ends because of a bug in a background service: ZeroDivisionError('a bug')" in errors(caplog)[0]
        with pytest.raises(ServiceCrashedError):
            await consumer.wait_assigned()
        with pytest.raises(ServiceCrashedError):
            await consumer.run_forever()
        nursery.cancel_scope.cancel()


async def test_an_orderly_end_is_no_crash(autojump_clock: MockClock) -> None:
    async with world() as w, trio.open_nursery() as nursery:
        consumer = w.consumer()
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            nursery.start_soon(consumer.run_forever)
            await trio.sleep(1)
            assert consumer.status().crash is None
        assert consumer.status().crash is None
        with trio.fail_after(1):
            await trio.testing.wait_all_tasks_blocked()
        assert not nursery.child_tasks
