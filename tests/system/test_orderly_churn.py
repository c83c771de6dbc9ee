"""Consuming in order while everything around changes: members come, go, are cut off, fall silent; brokers restart."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.push import PushConsumer
from rocketpy.message import Message, MessageExt, MessageQueue
from rocketpy.results import ConsumeFromWhere
from rocketpy.seams import set_random_seed
from tests.checker import Delivery, Fault, Kind, check_order
from tests.checker import Group as Seen
from tests.system.cable import Cable
from tests.system.consuming import World, wait_until, world

BROKERS, QUEUES, MESSAGES, TROUBLES = 2, 3, 150, 10
QUICK, BY_DAY, ALL = 5, 20, 50
"""Seeds in every run, in those with the matrices, and by night. The schedules have orderly groups by the hundred."""


def marks_of(seed: int) -> list[pytest.MarkDecorator]:
    """In which runs a seed is."""
    return [] if seed < QUICK else [pytest.mark.matrix] if seed < BY_DAY else [pytest.mark.matrix, pytest.mark.nightly]


SEEDS = [pytest.param(seed, marks=marks_of(seed)) for seed in range(ALL)]


class Group:
    """The members of a group, what they get, and how they are."""

    def __init__(self, w: World, rng: random.Random) -> None:
        self.w = w
        self.rng = rng
        self.seen = Seen(kind=Kind.ORDERLY)
        self.members: dict[str, tuple[PushConsumer, Cable, trio.CancelScope]] = {}
        self._number = 0

    async def member(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """One member until it is told to go."""
        self._number += 1
        name, cable = f"member-{self._number}", Cable(self.w.cluster.network)
        consumer = self.w.consumer(
            orderly=True,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            network=cable,
            instance_name=name,
            await_termination=6.0,
            consume_thread_max=4,
        )

        async def listener(message: MessageExt) -> None:
            await self.consume(name, message)

        consumer.subscribe("Orders", listener)
        with trio.CancelScope() as scope:
            async with consumer:
                self.members[name] = consumer, cable, scope
                task_status.started()
                await trio.sleep_forever()
        self.members.pop(name, None)

    async def consume(self, name: str, message: MessageExt) -> None:
        """The listener: it takes a while, and fails at times."""
        began, ended, succeeded = trio.current_time(), None, False
        try:
            await trio.sleep(self.rng.choice((0.01, 0.1, 0.5, 4.0)))
            if self.rng.random() < 0.05:
                ended = trio.current_time()
                raise ValueError("not this time")
            ended, succeeded = trio.current_time(), True
        finally:
            queue = message.topic, message.broker_name, message.queue_id
            delivery = Delivery(
                consumer=name,
                queue=queue,
                offset=message.queue_offset,
                began=began,
                ended=ended if ended is not None else trio.current_time(),
                succeeded=succeeded,
            )
            self.seen.deliveries.append(delivery)

    def finished(self) -> int:
        return len({(each.queue, each.offset) for each in self.seen.deliveries if each.succeeded})

    def any_member(self) -> tuple[PushConsumer, Cable, trio.CancelScope] | None:
        return self.rng.choice(list(self.members.values())) if self.members else None

    def note_commits(self) -> None:
        """What is committed at the brokers now."""
        for broker in self.w.cluster.brokers:
            for queue_id in range(QUEUES):
                offset = broker.offsets.query("billing", "Orders", queue_id)
                if offset >= 0:
                    self.seen.note_commit(trio.current_time(), ("Orders", broker.config.broker_name, queue_id), offset)

    def owners(self) -> list[list[MessageQueue]]:
        """The queues of each member."""
        return [list(consumer.assignment) for consumer, _, _ in self.members.values()]


async def trouble(group: Group, nursery: trio.Nursery) -> None:
    """One thing that happens to a group."""
    rng = group.rng
    kind = rng.choice(("join", "join", "leave", "cut", "silence", "restart", "kill"))
    member = group.any_member()
    if kind == "join" and len(group.members) < 4:
        await nursery.start(group.member)
    elif kind == "restart":
        number = rng.randrange(BROKERS)
        await group.w.cluster.stop_broker(number)
        name = group.w.cluster.brokers[number].config.broker_name
        group.seen.faults.append(Fault(at=trio.current_time(), what="restart", broker=name))
        await group.w.cluster.start_broker(number)
    elif member is None:
        return
    elif kind == "leave" and len(group.members) > 1:
        member[2].cancel()
    elif kind == "kill" and len(group.members) > 1:
        member[1].cut()  # its locks stay behind
        member[2].cancel()
    elif kind in ("cut", "silence"):
        member[1].cut() if kind == "cut" else member[1].silence()
        pause = rng.choice((0.5, 5.0, 35.0, 75.0))
        await trio.sleep(pause)
        # A commit that lies in a silent connection until the lock is another's would come behind that one's commits.
        member[1].mend(lose=pause > 60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_OR2_order_is_kept_whatever_happens_to_members_and_brokers(autojump_clock: MockClock, seed: int) -> None:
    rng = random.Random(seed)
    set_random_seed(seed)
    async with world(BROKERS, queues=QUEUES) as w, trio.open_nursery() as nursery:
        group = Group(w, rng)

        async def watch() -> None:
            while True:
                group.note_commits()
                await trio.sleep(0.5)

        async def send() -> None:
            for number in range(MESSAGES):
                await w.producer.send(Message("Orders", b"%d" % number), timeout=60)
                await trio.sleep(0.3)

        nursery.start_soon(watch)
        await nursery.start(group.member)
        async with trio.open_nursery() as sending:
            sending.start_soon(send)
            for _ in range(TROUBLES):
                await trio.sleep(rng.uniform(0.5, 12))
                await trouble(group, nursery)
        if len(group.members) < 2:
            await nursery.start(group.member)
        changed = trio.current_time()
        await wait_until(lambda: group.finished() == sent(w), within=300)
        # I18: 40 s after the last change, or the 60 s that a lock is kept of a member that is gone.
        await trio.sleep(max(0.0, changed + 100 - trio.current_time()))
        assert sorted(queue for share in group.owners() for queue in share) == sorted(
            MessageQueue("Orders", broker.config.broker_name, number)
            for broker in w.cluster.brokers
            for number in range(QUEUES)
        )
        for _, _, scope in list(group.members.values()):
            scope.cancel()
        await wait_until(lambda: not group.members)
        group.note_commits()
        nursery.cancel_scope.cancel()
    assert check_order(group.seen) == []


@pytest.fixture(autouse=True)
def _repeatable() -> Iterator[None]:
    yield
    set_random_seed(None)


def sent(w: World) -> int:
    """Messages at the brokers: a send that was tried again may be there twice."""
    return sum(
        broker.store.reads.max_offset("Orders", number) for broker in w.cluster.brokers for number in range(QUEUES)
    )
