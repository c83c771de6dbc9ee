"""Members that poll. They run in a loop with a `MockClock`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import trio

from rocketpy import ClientClosedError, LitePullConsumer, MessageExt, MessageQueue, RocketMQError
from tests.checker import Fault
from tests.schedules.members import Member
from tests.schedules.plan import DISTURBED, TOPIC, GroupPlan
from tests.schedules.world import World

__all__ = ["Polling"]


class Polling(Member):
    """A lite pull consumer, with the loop of its program.

    It commits automatically, by hand after each poll, or by acknowledging messages in any order.
    """

    def __init__(self, name: str, plan: GroupPlan, world: World) -> None:
        self._has_queues = trio.Event()
        self._end_of = world.end_of
        super().__init__(name, plan, world)

    def _make(self, settings: dict[str, Any]) -> LitePullConsumer:
        self._lite = LitePullConsumer(self.plan.name, auto_commit=self.plan.commits != "hand", **settings)
        if not self.plan.assigns:
            self._lite.subscribe(TOPIC, tags=self.plan.filter.tags, sql=self.plan.filter.sql)
            self._has_queues.set()
        return self._lite

    def assign(self, queues: Sequence[MessageQueue]) -> None:
        """Take exactly these queues; an empty sequence changes nothing."""
        if queues:
            self._history.had["assigned"] += 1
            self._lite.assign(queues, tags=self.plan.filter.tags, sql=self.plan.filter.sql)
            self._has_queues.set()

    async def _work(self) -> None:
        await self._has_queues.wait()
        with suppress(ClientClosedError):
            while True:
                await self._work_on(await self._lite.poll(self.plan.batch))
                if trio.current_time() < DISTURBED and self._chance.random() < self.plan.seeks:
                    await self._seek()

    async def _work_on(self, messages: list[MessageExt]) -> None:
        pairs = list(zip(messages, self._begin(messages), strict=True))
        self._chance.shuffle(pairs)
        for message, delivery in pairs:
            if self.plan.work:
                await trio.sleep(self._chance.uniform(0, self.plan.work))
            delivery.ended, delivery.succeeded = trio.current_time(), True
            if self.plan.commits == "ack":
                self._lite.ack(message)
        if messages and self.plan.commits == "hand":
            with suppress(RocketMQError):  # it is committed again with the next one
                await self._lite.commit()

    async def _seek(self) -> None:
        """Seek a few messages back or forward in a queue, but not beyond its end."""
        if not self._lite.assignment:
            return
        queue = self._chance.choice(self._lite.assignment)
        at = self._lite.position(queue)
        to = min(max(at, self._end_of(queue)), max(0, at + self._chance.randrange(-5, 6)))
        began, line, certain = trio.current_time(), (queue.topic, queue.broker_name, queue.queue_id), True
        try:
            await self._lite.seek(queue, to)
        except RocketMQError:  # the broker is down, or another member has the queue by now
            certain = False
        self._history.had["sought back" if to < at else "sought forth"] += certain
        self._group.faults.append(Fault(at=began, what="seek", queue=line, offset=to, certain=certain))
