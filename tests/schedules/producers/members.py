"""Producers that come, send until they leave, and die; what came of each of their messages is recorded.

They run in a loop with a `MockClock`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs
import trio

from rocketpy import Producer, RocketMQError
from rocketpy.errors import BrokerError
from rocketpy.message import Message
from rocketpy.results import SendResult
from tests.checker import Call, Outcome, Send
from tests.schedules.producers.plan import DISTURBED, TOPIC, Team
from tests.schedules.producers.world import AMOUNT, World, body_of, keys_of
from tests.schedules.world import Leash

__all__ = ["Draft", "Member", "Way"]

TAGS = ("Aa", "BB", None)
TIMEOUTS = (1.0, 3.0, 3.0, 6.0)
Way = Callable[["Member"], Awaitable[None]]


@attrs.define
class Draft:
    """A message that is being sent, and the record of it.

    Attributes:
        waits: Whether it is not to be in its topic as soon as it is acknowledged.
    """

    name: str
    message: Message
    began: float
    waits: bool = False

    def told(
        self, outcome: Outcome, result: SendResult | None = None, *, place: int = 0, producer: str | None = None
    ) -> Send:
        """The record, once the outcome is known.

        Args:
            outcome: What is known.
            result: What the broker has acknowledged.
            place: How many messages of the same result are before this one.
            producer: The producer, if it sends one message after the other.
        """
        message = self.message
        known = result is not None and not self.waits
        return Send(
            id=self.name,
            topic=message.topic,
            body=message.body,
            outcome=outcome,
            tags=message.tags,
            keys=keys_of(message),
            properties={AMOUNT: message.properties[AMOUNT]},
            broker=result.queue.broker_name if result else "",
            place=(result.queue.queue_id, result.queue_offset + place) if result and known else None,
            producer=producer,
            began=self.began,
            ended=trio.current_time(),
            stored_by=float("inf") if self.waits else None,
        )

    def aside(self, send: Send, topic: str, queue: int, result: SendResult | None) -> Send:
        """The record of the message as it waits in a topic of the broker's own."""
        place = None if result is None else (queue, result.queue_offset)
        return attrs.evolve(send, topic=topic, place=place, stored_by=None, producer=None)


def outcome_of(error: RocketMQError) -> Outcome:
    """Whether a send has failed for sure: it never left, or every broker that got it has refused it."""
    tries = [attempt.error for attempt in error.attempts] or [error]
    sure = error.nothing_sent or all(each.nothing_sent or isinstance(each, BrokerError) for each in tries)
    return Outcome.FAIL if sure else Outcome.INFO


class Member:
    """One producer, with its program.

    Args:
        name: of its process.
        team: its group, and how it sends.
        world: what is around it.
        producer: makes the producer, given its settings.
        ways: the ways in which it sends.

    Attributes:
        dead: Whether its process is ending or has ended, or it is cut off for good.
        last: The record of the last send that was awaited.
        result: Its result.
        done: Set when it sends nothing more; it may stay to be asked.
        gone: Set when its process has ended.
    """

    def __init__(
        self,
        name: str,
        team: Team,
        world: World,
        producer: Callable[..., Producer],
        ways: Sequence[tuple[str, Way]],
    ) -> None:
        self.name = name
        self.team = team
        self.world = world
        self.dead = False
        self.done = trio.Event()
        self.gone = trio.Event()
        self.last: Send
        self.result: SendResult | None = None
        self._ways = ways
        self._leash = Leash(world.network)
        self._leaving = trio.Event()
        self._over = trio.CancelScope()
        self._number = 0
        self._open: dict[str, tuple[Draft, Call]] = {}
        settings: dict[str, Any] = {"linger": team.linger} if team.linger else {}
        self.producer = producer(
            self,
            namesrv=world.cluster.name_server_addresses,
            network=self._leash,
            send_latency_enable=team.latency,
            **settings,
        )

    # --- life -----------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until it leaves, or is killed."""
        try:
            with self._over:
                async with self.producer:
                    task_status.started()
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._work)
                        await self._leaving.wait()
                        nursery.cancel_scope.cancel()
        finally:
            self.dead = True
            self.done.set()
            self.gone.set()
            for draft, call in self._open.values():  # they are not waited for
                call.is_over = self._over.cancelled_caught
                self.world.history.sends.append(draft.told(Outcome.INFO))
            self._note_left_over()

    async def _work(self) -> None:
        chance = self.world.chance
        await trio.sleep(chance.uniform(0, 2 * self.team.pause))
        while trio.current_time() < DISTURBED or not self.world.is_enough:
            what, way = chance.choice(self._ways)
            self.world.history.had[what] += 1
            await way(self)
            await trio.sleep(chance.uniform(0, 2 * self.team.pause))
        self.done.set()

    def leave(self) -> None:
        """Stop sending, and close in order."""
        self._leaving.set()

    def kill(self) -> None:
        """End as a process does that is killed: it says nothing any more, and nobody waits for its answers."""
        self.dead = True
        self._leash.take_away(silently=False)
        self._over.cancel()

    def unplug(self) -> None:
        """Cut it off for good; it does not know."""
        self.dead = True
        self._leash.take_away(silently=True)

    def _note_left_over(self) -> None:
        producer = self.producer
        tables = {
            "requests": len(producer.client.requests),
            "sends": producer.outside.sends.total,
            "keys": len(producer._core.order),
            "messages that linger": len(producer.outside.accumulator) if producer.outside.accumulator else 0,
        }
        self.world.history.left_over += [
            f"{self.name} has {count} {what} after it has closed" for what, count in tables.items() if count
        ]

    # --- sending --------------------------------------------------------------------------------------

    def draft(self, topic: str = TOPIC, *, size: int = 0, waits: bool = False, **fields: Any) -> Draft:
        """A message with an id of its own."""
        name, chance = f"{self.name}-{self._number}", self.world.chance
        self._number += 1
        fields.setdefault("tags", chance.choice(TAGS))
        fields.setdefault("properties", {AMOUNT: str(chance.randrange(10))})
        keys = [f"key{chance.randrange(5)}", name] if chance.random() < 0.5 else []
        return Draft(name, Message(topic, body_of(name, size), keys=keys, **fields), trio.current_time(), waits)

    def timeout(self) -> float:
        """Seconds that a call may take."""
        return self.world.chance.choice(TIMEOUTS)

    def call(self, what: str, within: float) -> Call:
        """Record that a call begins."""
        made = Call(name=f"{what} of {self.name}", began=trio.current_time(), within=within)
        self.world.history.calls.append(made)
        return made

    async def send(
        self, drafts: Sequence[Draft], call: Call, doing: Callable[[], Awaitable[SendResult]], *, in_turn: bool = True
    ) -> SendResult | None:
        """Send messages, and record what came of them.

        Args:
            drafts: the messages.
            call: the call.
            doing: sends them.
            in_turn: whether this producer sends nothing else meanwhile.
        """
        outcome, result = Outcome.INFO, None
        for draft in drafts:
            draft.began = trio.current_time()
        try:
            result, outcome = await doing(), Outcome.OK
        except RocketMQError as error:
            outcome = outcome_of(error)
        except trio.Cancelled:
            call.is_over = True
            raise
        finally:
            if not call.is_over:
                call.answers.append(trio.current_time())
            for place, draft in enumerate(drafts):
                who = self.name if in_turn else None
                self.last, self.result = draft.told(outcome, result, place=place, producer=who), result
                self.world.history.sends.append(self.last)
        return result

    def start(self, draft: Draft, within: float) -> None:
        """Send a message and have the outcome called back."""
        call = self.call("a callback", within)
        self._open[draft.name] = draft, call

        def done(outcome: SendResult | BaseException) -> None:
            call.answers.append(trio.current_time())
            if self._open.pop(draft.name, None) is None:
                return
            if isinstance(outcome, SendResult):
                told = draft.told(Outcome.OK, outcome)
            else:
                told = draft.told(outcome_of(outcome) if isinstance(outcome, RocketMQError) else Outcome.INFO)
            self.world.history.sends.append(told)

        self.producer.outside.start_send(self.producer.outside.prepare_frame([draft.message]), done, timeout=within)
