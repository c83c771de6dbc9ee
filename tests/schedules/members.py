"""The members of a group: each is a consumer that records what it gets.

They run in a loop with a `MockClock`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import trio

from rocketpy import (
    ConsumeFromWhere,
    ConsumeResult,
    LitePullConsumer,
    MessageExt,
    MessageModel,
    PushConsumer,
    Suspend,
)
from rocketpy.message import PropertyName
from tests.checker import Delivery, Kind, Life, Line, Observation, Seen
from tests.schedules.plan import AMOUNT, DISTURBED, MOST_ATTEMPTS, TOPIC, GroupPlan
from tests.schedules.world import KeptFile, World

__all__ = ["Listening", "Member", "seen"]

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def seen(message: MessageExt) -> Seen:
    """A message for the checker."""
    return Seen(
        id=str(message.body, "ascii"),
        topic=message.topic,
        broker=message.broker_name,
        queue_id=message.queue_id,
        offset=message.queue_offset,
        body=message.body,
        tags=message.wire_properties.get(PropertyName.TAGS),
        properties={AMOUNT: message.properties[AMOUNT]} if AMOUNT in message.properties else {},
    )


class Member(ABC):
    """One consumer; a subclass determines its kind.

    Attributes:
        dead: Whether its process is ending or has ended, or it is cut off for good.
        ended: Set when its process has ended.
        life: Its record for the checker, once it has started.
    """

    def __init__(self, name: str, plan: GroupPlan, world: World) -> None:
        self.name = name
        self.plan = plan
        self.dead = False
        self.ended = trio.Event()
        self.life = Life(name=name)
        self._group = world.history.groups[plan.name]
        self._history = world.history
        self._chance = world.chance
        self._leash = world.leash
        self._seen = world.history.observed.setdefault(name, Observation(name=name, complete=False)).seen
        self._leaving = trio.Event()
        self._over = trio.CancelScope()
        self.consumer = self._make({"namesrv": world.namesrv, "network": world.leash, "consume_from_where": FIRST})

    @abstractmethod
    def _make(self, settings: dict[str, Any]) -> PushConsumer | LitePullConsumer:
        """A consumer that is not started, with what it subscribes."""

    async def _work(self) -> None:
        """What its program does besides: nothing, where a listener does it all."""
        await trio.sleep_forever()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until it is told to leave, or killed."""
        with self._over:
            async with self.consumer:
                self.life.joined = trio.current_time()
                self._group.lives.append(self.life)
                task_status.started()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._work)
                    await self._leaving.wait()
                    nursery.cancel_scope.cancel()
        self.dead = True
        self.ended.set()

    def leave(self) -> None:
        """Close in order."""
        self._leaving.set()

    def kill(self) -> None:
        """End as a process does that is killed: it says nothing any more."""
        self._leash.take_away(silently=False)
        self._over.cancel()

    def unplug(self) -> None:
        """Cut it off for good; it does not know."""
        self._leash.take_away(silently=True)

    def _begin(self, messages: Sequence[MessageExt]) -> list[Delivery]:
        """Record that these messages have arrived together."""
        call = len(self._group.deliveries)
        begun = [self._delivery(message, call) for message in messages]
        self._group.deliveries += begun
        return begun

    def _delivery(self, message: MessageExt, call: int) -> Delivery:
        found = seen(message)
        retried = PropertyName.RETRY_TOPIC in message.wire_properties
        if not retried:
            self._seen.append(found)
        return Delivery(
            consumer=self.name,
            id=found.id,
            queue=(f"%RETRY%{self.plan.name}" if retried else TOPIC, found.broker, found.queue_id),
            offset=found.offset,
            began=trio.current_time(),
            attempt=message.reconsume_times,
            retried=retried,
            call=call,
        )


class Listening(Member):
    """A push consumer, with its listener."""

    def __init__(self, name: str, plan: GroupPlan, world: World) -> None:
        self._file = KeptFile(world.disk)
        self._held: dict[Line, list[Delivery]] = {}
        super().__init__(name, plan, world)

    def _make(self, settings: dict[str, Any]) -> PushConsumer:
        consumer = PushConsumer(
            self.plan.name,
            max_reconsume_times=MOST_ATTEMPTS,
            consume_message_batch_max_size=self.plan.batch,
            **settings,
            **self._settings(),
        )
        consumer.subscribe(TOPIC, self._listen, tags=self.plan.filter.tags, sql=self.plan.filter.sql)
        return consumer

    def _settings(self) -> dict[str, Any]:
        """The settings of this kind of consumer."""
        made: dict[Kind, Callable[[], dict[str, Any]]] = {
            Kind.CONCURRENT: dict,
            Kind.ORDERLY: lambda: {"orderly": True, "auto_commit": self.plan.commits == "auto"},
            Kind.BROADCAST: lambda: {"message_model": MessageModel.BROADCASTING, "offset_store": self._file},
        }
        return made[self.plan.kind]()

    def kill(self) -> None:
        self._file.let_go()
        super().kill()

    async def _listen(self, what: MessageExt | list[MessageExt]) -> object:
        messages = what if isinstance(what, list) else [what]
        begun = self._begin(messages)
        if self.plan.work:
            await trio.sleep(self._chance.uniform(0, self.plan.work))
        good, answer = self._answer(messages)
        for delivery in begun:
            delivery.ended, delivery.succeeded = trio.current_time(), good
        if self.plan.commits == "hand":
            self._hold(begun, answer)
        return answer

    def _answer(self, messages: Sequence[MessageExt]) -> tuple[bool, object]:
        """Whether the listener succeeds, and what it returns."""
        if self._fails(messages):
            if self.plan.kind is Kind.ORDERLY and self._chance.random() < 0.5:
                self._history.had["suspended"] += 1
                return False, Suspend(0.7)
            return False, ConsumeResult.RETRY
        if self.plan.commits != "hand":
            return True, None
        disturbed = trio.current_time() < DISTURBED
        if disturbed and self._chance.random() < 0.05:
            self._history.had["rolled back"] += 1
            return False, ConsumeResult.ROLLBACK
        return True, ConsumeResult.SUCCESS if disturbed and self._chance.random() < 0.6 else ConsumeResult.COMMIT

    def _fails(self, messages: Sequence[MessageExt]) -> bool:
        if self.plan.refuses_bad and str(messages[0].body, "ascii") in self._history.bad:
            return True
        first_try = all(message.reconsume_times == 0 for message in messages)
        return first_try and self._chance.random() < self.plan.trouble

    def _hold(self, begun: list[Delivery], answer: object) -> None:
        """Note what may be committed by now; redelivered messages are no longer held."""
        queue, lowest = begun[0].queue, begun[0].offset
        held = [each for each in self._held.get(queue, []) if each.offset < lowest]
        if answer is ConsumeResult.COMMIT:
            self._history.had["committed by hand in order"] += 1
            for each in [*held, *begun]:
                each.held, each.released = False, trio.current_time()
            held = []
        elif answer is ConsumeResult.ROLLBACK:
            held = []
        elif answer is ConsumeResult.SUCCESS:
            for each in begun:
                each.held = True
            held += begun
        self._held[queue] = held
