"""A lite pull consumer that ends at any point: nothing is lost, and only what was not committed comes again."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer import LitePullConsumer
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.results import ConsumeFromWhere
from tests.system.cable import Cable
from tests.system.consuming import World, queues_of, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
SENT = 400


class Life:
    """What all lives of the consumer have come to, and what is to hold between them."""

    def __init__(self, w: World, random: Random, way: str) -> None:
        self.w = w
        self.random = random
        self.way = way
        self.seen: defaultdict[MessageQueue, set[int]] = defaultdict(set)
        self.undone: dict[tuple[MessageQueue, int], MessageExt] = {}
        self.allowed: dict[MessageQueue, int] = {}
        self.acknowledges = False

    async def live(self, *, to_the_end: bool) -> None:
        """One life: some polls with what belongs to them, then an end in order or without warning."""
        settings = {"auto_commit": self.way == "auto", "auto_commit_interval": 0.5, "consume_from_where": FIRST}
        cable = Cable(self.w.cluster.network)
        consumer = self.w.lite(network=cable, close_timeout=0.5, **settings)
        self.acknowledges = False
        if self.random.random() < 0.5:
            consumer.subscribe("Orders")
        else:
            consumer.assign(queues_of(3))
        with trio.CancelScope() as scope:
            async with consumer:
                await consumer.wait_assigned(30)
                for _ in range(10_000 if to_the_end else self.random.randrange(12)):
                    if not await self.step(consumer) and to_the_end:
                        break
                if self.random.random() < 0.5:
                    cable.cut()  # as when its process dies: nothing that it says at its end reaches the broker
                if self.random.random() < 0.5:
                    scope.cancel()
                    await trio.sleep(1)
        await self.check()

    async def step(self, consumer: LitePullConsumer) -> bool:
        if self.way == "auto":
            self.undone.clear()  # asking for more says so
        batch = await consumer.poll(self.random.choice([1, 3, 10, 40]), timeout=2)
        for message in batch:
            assert message.queue_offset >= self.allowed.get(message.queue, 0), "committed, and comes again"
            self.seen[message.queue].add(message.queue_offset)
            self.undone[message.queue, message.queue_offset] = message
        await trio.sleep(self.random.choice([0, 0.1, 0.7]))
        await getattr(self, f"_{self.way}")(consumer)
        return bool(batch)

    async def _auto(self, consumer: LitePullConsumer) -> None:
        """It commits by itself."""

    async def _commit(self, consumer: LitePullConsumer) -> None:
        if self.random.random() < 0.4:
            await consumer.commit()
            self.undone.clear()

    async def _ack(self, consumer: LitePullConsumer) -> None:
        for key in self.random.sample(sorted(self.undone), k=-(-len(self.undone) * 2 // 3)):
            consumer.ack(self.undone.pop(key))
            self.acknowledges = True
        if self.acknowledges and self.random.random() < 0.4:
            await consumer.commit()

    async def check(self) -> None:
        """Nothing is committed that is not done; and what is not done comes again."""
        async with self.w.puller("billing") as looking:
            for queue in queues_of(3):
                committed = await looking.fetch_consume_offset(queue) or 0
                open_here = [offset for where, offset in self.undone if where == queue]
                assert committed <= min(open_here, default=SENT)
                assert self.seen[queue] >= set(range(committed))
                self.allowed[queue] = committed
        self.undone.clear()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["auto", "commit", "ack"])
@pytest.mark.parametrize("seed", range(8))
async def test_complaint_10_a_restart_at_any_point_loses_nothing_and_repeats_what_was_not_committed(
    autojump_clock: MockClock, way: str, seed: int
) -> None:
    async with world(queues=3) as w:
        sent = await w.send(SENT)
        life = Life(w, Random(seed), way)
        for _ in range(12):
            await life.live(to_the_end=False)
        await life.live(to_the_end=True)
        assert sum(map(len, life.seen.values())) == len(sent)
