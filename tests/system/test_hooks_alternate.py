"""For every queue `on_assigned` and `on_revoked` alternate, whatever takes it away and however it is consumed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.message import MessageExt, MessageQueue
from rocketpy.results import ConsumeFromWhere, ConsumeResult, MessageModel
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from tests.consumer import brokers as scripted
from tests.system.consuming import Recorder, World, queues_of, wait_until, world
from tests.system.test_driven import scene
from tests.system.test_orderly_locks import Locks, orderly

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
Queues = tuple[MessageQueue, ...]


class Ledger:
    """Hooks that keep account of each queue, and refuse what does not alternate."""

    def __init__(self) -> None:
        self.ours: set[MessageQueue] = set()
        self.wrong: list[tuple[str, MessageQueue]] = []
        self.calls: list[tuple[str, Queues]] = []

    @property
    def hooks(self) -> dict[str, Any]:
        return {"on_assigned": self.on_assigned, "on_revoked": self.on_revoked}

    async def on_assigned(self, queues: Queues) -> None:
        self.wrong += [("assigned twice", queue) for queue in queues if queue in self.ours]
        self.ours.update(queues)
        self.calls.append(("assigned", queues))
        await trio.sleep(0.2)

    async def on_revoked(self, queues: Queues) -> None:
        await trio.sleep(0.2)
        self.wrong += [("revoked and not ours", queue) for queue in queues if queue not in self.ours]
        self.ours.difference_update(queues)
        self.calls.append(("revoked", queues))

    def told(self, queue: MessageQueue) -> list[str]:
        return [what for what, queues in self.calls if queue in queues]

    def check_closed(self) -> None:
        assert self.wrong == []
        assert self.ours == set()


def consumer_of(kind: str, w: World, tmp_path: Path, **settings: Any) -> Any:
    """One that subscribes Orders; its listener takes a while."""

    async def listen(message: MessageExt) -> None:
        await trio.sleep(0.5)

    if kind == "lite":
        lite = w.lite(consume_from_where=FIRST, **settings)
        lite.subscribe("Orders")
        return lite
    if "broadcast" in kind:
        settings |= {"message_model": MessageModel.BROADCASTING, "local_offset_store_dir": str(tmp_path)}
    push = w.consumer(consume_from_where=FIRST, orderly="orderly" in kind, **settings)
    push.subscribe("Orders", listen)
    return push


KINDS = ("concurrent", "orderly", "broadcast", "orderly broadcast", "lite")


@pytest.mark.parametrize("kind", KINDS)
async def test_complaint_15_hooks_alternate_when_members_come_and_go_and_topics_too(
    autojump_clock: MockClock, tmp_path: Path, kind: str
) -> None:
    ledger = Ledger()
    async with world() as w:
        await w.send(40)
        consumer = consumer_of(kind, w, tmp_path, **ledger.hooks)
        async with consumer:
            await wait_until(lambda: len(ledger.ours) == 4)
            async with consumer_of(kind, w, tmp_path / "other"):
                await trio.sleep(5)
                assert len(ledger.ours) == (4 if "broadcast" in kind else 2)
            await wait_until(lambda: len(ledger.ours) == 4)
            consumer.unsubscribe("Orders")
            await wait_until(lambda: ledger.ours == set())
            again = () if kind == "lite" else (Recorder(),)
            consumer.subscribe("Orders", *again)
            await wait_until(lambda: len(ledger.ours) == 4)
            assert len(ledger.told(queues_of(4)[3])) >= 3
        ledger.check_closed()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lite"])
async def test_a_reset_revokes_and_assigns(autojump_clock: MockClock, tmp_path: Path, kind: str) -> None:
    ledger = Ledger()
    settings = ledger.hooks | {"orderly": "orderly" in kind}
    if "broadcast" in kind:
        settings |= {"message_model": MessageModel.BROADCASTING, "local_offset_store_dir": str(tmp_path)}
    async with scene(messages=4, **settings) as s:
        await s.reset({s.queue(0): 0, s.queue(1): 0})
        await s.recorder.wait_count(6)
        assert [ledger.told(s.queue(number)) for number in (0, 2)] == [
            ["assigned", "revoked", "assigned"],
            ["assigned"],
        ]
    ledger.check_closed()


async def test_a_reset_in_the_middle_of_a_hook_alternates_too(autojump_clock: MockClock) -> None:
    ledger = Ledger()

    async def slow(queues: Queues) -> None:
        await trio.sleep(2.5)
        await ledger.on_assigned(queues)

    async with scene(messages=4, **ledger.hooks | {"on_assigned": slow}) as s:
        queues = [s.queue(number) for number in range(4)]
        for _ in range(3):
            await s.reset(dict.fromkeys(queues, 0))
            await trio.sleep(1.2)  # in the middle of being assigned again
        await wait_until(lambda: len(ledger.ours) == 4)
    ledger.check_closed()


async def test_a_queue_that_is_taken_again_since_nobody_pulls_it_is_revoked_and_assigned(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger()
    async with world(queues=1) as w:
        consumer = w.consumer(rebalance_interval=1.0, **ledger.hooks)
        consumer.subscribe("Orders", Recorder())
        async with consumer:
            [queue] = consumer.assignment
            puller = consumer._running.assignment.get(queue)  # type: ignore[union-attr]
            monkeypatch.setattr(puller, "is_overdue", lambda now, limit: True)
            await trio.sleep(3)
            assert ledger.told(queue) == ["assigned", "revoked", "assigned"]
        ledger.check_closed()


# --- in order ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def locked(listener: Callable[[MessageExt], Any], **settings: Any) -> AsyncIterator[tuple[Locks, scripted.World]]:
    """A consumer in order of one queue that holds messages."""
    async with scripted.world() as w:
        locks = Locks(w.broker)
        w.broker.store(3)
        async with orderly(w, listener, **settings):
            yield locks, w


async def test_complaint_15_on_revoked_comes_after_the_listener_and_before_the_last_commit(
    autojump_clock: MockClock,
) -> None:
    """What is flushed in it counts: what was not finished by then goes to the next owner, and nothing twice."""
    inside: list[MessageExt] = []
    done: list[bytes] = []
    flushed: list[list[bytes]] = []

    async def listen(message: MessageExt) -> None:
        inside.append(message)
        await trio.sleep(15)
        inside.remove(message)
        done.append(message.body)

    async def flush(queues: Queues) -> None:
        assert [message for message in inside if message.queue in queues] == []
        await trio.sleep(1)
        assert [message for message in inside if message.queue in queues] == []
        assert flushed or second.messages == []
        await first.commit()
        flushed.append(list(done))

    async with world(queues=2) as w:
        await w.send(20)
        first = w.consumer(orderly=True, consume_from_where=FIRST, on_revoked=flush, await_termination=20.0)
        first.subscribe("Orders", listen)
        second = Recorder()
        other = w.consumer(orderly=True, consume_from_where=FIRST)
        other.subscribe("Orders", second)
        async with first:
            await trio.sleep(1)
            async with other:
                await wait_until(lambda: len(second.messages) == 9)
                assert len(flushed) == 1
                assert not set(second.bodies) & set(flushed[0])
        assert len(flushed) == 2


async def test_a_closing_consumer_awaits_the_hook_of_a_queue_that_goes(autojump_clock: MockClock) -> None:
    """Nothing is committed or unlocked before it, though its listener returns only while the consumer closes."""
    order: list[str] = []

    async def listen(message: MessageExt) -> None:
        await trio.sleep(10)
        order.append("listened")

    async def revoked(queues: Queues) -> None:
        await trio.sleep(1)
        order.append("revoked")

    async with scripted.world() as w:
        locks = Locks(w.broker)
        w.broker.store(1)

        def unlock(link: object, request: RemotingCommand) -> None:
            locks.unlock(link, request)
            if scripted.queue() in locks.unlocked:
                order.append("unlocked")

        w.broker.on(RequestCode.UNLOCK_BATCH_MQ, unlock)
        consumer = orderly(w, listen, on_revoked=revoked)
        async with consumer:
            await trio.sleep(1)
            consumer.unsubscribe("Orders")
            await trio.sleep(1)
        assert order == ["listened", "revoked", "unlocked"]


@pytest.mark.parametrize("trouble", ["raises", "hangs"])
async def test_a_lost_lock_revokes_once_the_listener_is_out_and_assigns_when_it_is_back(
    autojump_clock: MockClock, trouble: str
) -> None:
    told: list[tuple[float, str]] = []
    left: list[float] = []

    async def hook(what: str) -> None:
        told.append((round(trio.current_time() - began, 1), what))
        if trouble == "raises":
            raise KeyError("no such thing")
        await trio.sleep_forever()

    async def listen(message: MessageExt) -> None:
        await trio.sleep(25)
        left.append(round(trio.current_time() - began, 1))

    began = trio.current_time()
    hooks = {name: _telling(hook, name) for name in ("on_assigned", "on_revoked")}
    async with locked(listen, **hooks, rebalance_hook_timeout=1.0, await_termination=0.0) as (locks, _):
        await trio.sleep(15)
        locks.foreign = {scripted.queue()}
        await trio.sleep(25)
        locks.foreign = set()
        await trio.sleep(20)
    names = [what for _, what in told]
    assert names == ["on_assigned", "on_revoked", "on_assigned", "on_revoked"]
    assert told[1][0] == left[0]


def _telling(hook: Callable[[str], Any], name: str) -> Callable[[Queues], Any]:
    async def tell(queues: Queues) -> None:
        await hook(name)

    return tell


async def test_a_broker_that_restarts_calls_no_hook_where_its_locks_come_back(autojump_clock: MockClock) -> None:
    ledger = Ledger()
    async with world() as w:
        got = Recorder(lambda message: ConsumeResult.SUCCESS)
        consumer = w.consumer(orderly=True, consume_from_where=FIRST, **ledger.hooks)
        consumer.subscribe("Orders", got)
        async with consumer:
            await w.send(4)
            await got.wait_count(4)
            await w.cluster.stop_broker(0)
            await trio.sleep(2)
            await w.cluster.start_broker(0)
            await trio.sleep(60)
            await w.send(4, start=4)
            await got.wait_count(8)
            assert [what for what, _ in ledger.calls] == ["assigned"]
        ledger.check_closed()
