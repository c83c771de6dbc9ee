"""Runs a schedule of producers on a cluster in memory."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any

import trio
from trio.testing import MockClock

from rocketpy import (
    ConfigError,
    ConsumeFromWhere,
    LocalTransactionState,
    MessageExt,
    Producer,
    PushConsumer,
    RocketMQError,
)
from rocketpy.message.reply import create_reply_message
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import wall_clock, wall_ms
from rocketpy_broker_sim import LocalCluster
from tests.checker import Delivery, Group, Observation, Outcome, Restart
from tests.schedules.ending import Left
from tests.schedules.producers.clock import SetClock
from tests.schedules.producers.ending import look_at_brokers, note_end
from tests.schedules.producers.history import History
from tests.schedules.producers.judge import KNOWN_WITHIN
from tests.schedules.producers.members import Member
from tests.schedules.producers.plan import QUESTIONS, TOPIC, WAYS, Event, Plan, Team
from tests.schedules.producers.transacting import Database, Row, transaction, transactor
from tests.schedules.producers.ways import ALL, answer_to
from tests.schedules.producers.world import World, seen
from tests.schedules.run import deterministic
from tests.virtual_time import loop_time

__all__ = ["run"]

HEALED_WITHIN = 120.0
"""Seconds in which everything has come once nothing is disturbed any more and it is due."""
FOUND_WITHIN = 35.0
"""Seconds after which all clients have found a broker that is back."""
MISSED_WITHIN = 155.0
"""Seconds after which servers take a client that says nothing for gone, the interval of their look included."""
BACK_WITHIN = 5.0
"""Seconds after which clients have got over a link that was cut, or goes on."""
AFTER_DUE = 3.0
PATIENCE = 17 * 30.0
"""Seconds after which brokers have given up a transaction."""
LOOK = 0.5
ENDS_WITHIN = 3000.0
"""Seconds in which every schedule has ended, or something hangs."""
_EPOCH = 1_700_000_000_000


def run(plan: Plan) -> History:
    """Carry a schedule out, in a loop of its own with a mock clock. The same plan takes the same course."""
    with deterministic(plan.seed):
        return trio.run(_Run(plan).everything, clock=MockClock(autojump_threshold=0))


class _Run:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = random.Random(plan.seed)
        self.network = MemoryNetwork()
        self.members: list[Member] = []
        self._down = trio.Lock()
        self._said_goodbye = True

    async def everything(self) -> History:
        with wall_clock(loop_time(_EPOCH)), trio.fail_after(ENDS_WITHIN):
            async with LocalCluster(self.plan.brokers, network=self.network) as self.cluster:
                self.clock = SetClock(_followed())
                with wall_clock(self.clock.now_ms):
                    await self._live()
        return self.history

    async def _live(self) -> None:
        groups = {TOPIC: Group(name="readers"), QUESTIONS: Group(name="answerers")}
        self.history = History(groups, self.clock.noted, observed=[_consumers()])
        for topic in groups:
            await self.cluster.create_topic(topic, queues=self.plan.queues)
        left = Left(self.cluster, self.network)
        self.world = World(self.cluster, self.network, self.history, self.chance, self._broker_goes_for)
        self.database = Database(self.world, self.plan.is_calm)
        async with self._consuming(), trio.open_nursery() as self.nursery:
            await self._send()
            self._heal()
            await self._wait()
            self.history.until = trio.current_time()
            note_end(self.history, self.plan, self.cluster)
            for member in self.members:
                member.leave() if not member.dead else member.kill()
        await trio.sleep(1)
        left.look(self.history.left_over, len({each.broker for each in self.history.restarts}), self._groups())

    def _groups(self) -> list[str]:
        """The groups that brokers should no longer know: what was cut off without a word is known for a while."""
        return [team.name for team in self.plan.teams] if self._said_goodbye else []

    async def _send(self) -> None:
        for team in self.plan.teams:
            for _ in range(team.members):
                await self._join(team)
        async with trio.open_nursery() as disturbing:
            for event in self.plan.events:
                disturbing.start_soon(self._happen, event)
            for member in self.members:
                disturbing.start_soon(member.done.wait)
        for member in self.members:  # those that came later
            await member.done.wait()
        async with self._down:
            pass

    # --- consumers ------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _consuming(self) -> AsyncIterator[None]:
        where = {"namesrv": self.cluster.name_server_addresses, "network": self.network}
        first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        async with AsyncExitStack() as stack:
            readers = PushConsumer("readers", consume_from_where=first, **where)
            readers.subscribe(TOPIC, self._listener(TOPIC))
            await stack.enter_async_context(readers)
            if any(team.kind == "asking" for team in self.plan.teams):
                answers = await stack.enter_async_context(Producer("answers", **where))
                answerers = PushConsumer("answerers", consume_from_where=first, **where)
                answerers.subscribe(QUESTIONS, self._listener(QUESTIONS, answers))
                await stack.enter_async_context(answerers)
            yield

    def _listener(self, topic: str, answers: Producer | None = None) -> Callable[[MessageExt], Awaitable[None]]:
        group = self.history.groups[topic]

        async def listen(message: MessageExt) -> None:
            found = seen(message)
            self.history.observed[-1].seen.append(found)
            now = trio.current_time()
            group.deliveries.append(
                Delivery(consumer=group.name, queue=found.line, offset=found.offset, id=found.id, began=now, ended=now)
            )
            if answers is not None and message.wire_properties.get("CORRELATION_ID"):
                await trio.sleep(self.chance.choice((0.0, 0.0, 0.5, 4.0)))
                with suppress(RocketMQError):
                    await answers.send(create_reply_message(message, answer_to(message.body)))

        return listen

    # --- producers ------------------------------------------------------------------------------------

    async def _join(self, team: Team) -> None:
        name = f"{team.name}-{len(self.members) + 1}"
        ways = [(what, ALL.get(what) or partial(transaction, database=self.database)) for what in WAYS[team.kind]]
        made = transactor(self.database) if team.kind == "transacting" else _plain
        member = Member(name, team, self.world, made, ways)
        self.members.append(member)
        await self.nursery.start(member.run)
        if team.kind == "transacting":
            self.nursery.start_soon(self._keep_one, member)

    async def _keep_one(self, member: Member) -> None:
        """Let another one come when the last of those has gone that can be asked about transactions."""
        await member.gone.wait()
        if not self.history.until and not self._present(member.team.name):
            self.world.note("join")
            await self._join(member.team)

    def _present(self, team: str) -> list[Member]:
        return [member for member in self.members if member.team.name == team and not member.dead]

    def _one_of(self, team: str) -> Member | None:
        """Somebody who can go: a team keeps one."""
        present = self._present(team)
        return self.chance.choice(present) if len(present) > 1 else None

    # --- what happens ---------------------------------------------------------------------------------

    async def _happen(self, event: Event) -> None:
        await trio.sleep_until(event.at)
        team = next(each for each in self.plan.teams if each.name == event.team)
        if event.what == "join":
            self.world.note(event.what)
            await self._join(team)
        elif event.what in ("leave", "kill", "unplug"):
            self._go(event.what, team)
        elif event.what in ("restart broker", "kill broker"):
            await self._broker_goes(event.broker, event.lasts, kill=event.what == "kill broker")
        elif event.what.startswith("clock"):
            self.world.note(event.what)
            self.clock.step(event.lasts if event.what == "clock forward" else -min(event.lasts, 12.0))
        elif event.what == "stall links":
            await self._stall(event)
        else:
            with suppress(ConfigError):  # it is away
                await self._disturb(event)

    async def _disturb(self, event: Event) -> None:
        number = event.broker
        if event.what == "cut links":
            self.world.note(event.what, settles=BACK_WITHIN)
            await self.cluster.cut_connections(number)
        elif event.what == "lose answers":
            self.cluster.lose_answers(3, broker=number)
            self.world.note(event.what)
        elif event.what == "refuse sends":
            self.cluster.refuse_sends(5, broker=number)
            self.world.note(event.what)
        else:
            self.cluster.delay_sends(event.lasts / 4, 3, broker=number)
            self.world.note(event.what)

    def _go(self, how: str, team: Team) -> None:
        member = self._one_of(team.name)
        if member is None:
            return
        self.world.note(how, lasts=MISSED_WITHIN if how == "unplug" else 0.0, settles=BACK_WITHIN)
        self._said_goodbye &= how != "unplug"
        {"leave": member.leave, "kill": member.kill, "unplug": member.unplug}[how]()
        member.dead = True

    async def _stall(self, event: Event) -> None:
        """Let nothing through on the links of a broker, in one direction or in both."""
        toward = self.chance.choice(("server", "client", "both"))
        links = self.network.links(self.cluster.brokers[event.broker].address)
        self.world.note(event.what, event.lasts, BACK_WITHIN)
        for link in links:
            link.pause(toward)
        await trio.sleep(event.lasts)
        for link in links:
            link.resume(toward)

    async def _broker_goes(self, number: int, away: float, *, kill: bool) -> None:
        async with self._down:
            name, began = self.cluster.brokers[number].config.broker_name, trio.current_time()
            if kill:
                await self.cluster.kill_broker(number)
                await trio.sleep(away)
                await self.cluster.start_broker(number)
            else:
                await self.cluster.restart_broker(number)
            now = trio.current_time()
            self.history.restarts.append(Restart(broker=name, at=began, back=now))
            what = "kill broker" if kill else "restart broker"
            self.world.note(what, settles=FOUND_WITHIN, since=began)
            look_at_brokers(self.history, self.cluster, f"the brokers after {name} was started at {now:.1f}")
            self.history.observed.append(_consumers())

    async def _broker_goes_for(self, kill: bool) -> None:
        """Let some broker go; it comes back whatever becomes of the one that has asked for it."""
        is_back = trio.Event()

        async def go() -> None:
            number, away = self.chance.randrange(self.plan.brokers), self.chance.uniform(0.1, 5.0)
            await self._broker_goes(number, away, kill=kill)
            is_back.set()

        self.nursery.start_soon(go)
        await is_back.wait()

    def _heal(self) -> None:
        self.cluster.heal()
        self.history.settled = trio.current_time()

    # --- waiting --------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Until everything has come, as long as that may take, and what must not come has had its time."""
        history = self.history
        limits = [each.due(each.send.broker, history.restarts, history.clock)[1] for each in history.timed.values()]
        due = max([history.settled, *limits])
        with trio.move_on_at(due + HEALED_WITHIN):
            while not self._is_all_there():  # noqa: ASYNC110  it has no event
                await trio.sleep(LOOK)
        least = due + AFTER_DUE
        if history.transactions:
            least = max(least, history.settled + KNOWN_WITHIN + (PATIENCE if self.plan.is_patient else 0.0))
        missed = [fault.at + MISSED_WITHIN for fault in history.faults if fault.what == "unplug"]
        await trio.sleep(max(0.0, max([least, *missed]) - trio.current_time()))

    def _is_all_there(self) -> bool:
        got = {each.id for group in self.history.groups.values() for each in group.deliveries}
        wanted = {send.id for send in self.history.sends if send.outcome is Outcome.OK}
        for name, timed in self.history.timed.items():
            if timed.is_unsure or timed.recalled is not None:
                wanted.discard(name)
        committed = {name for name, each in self.history.transactions.items() if each.commits}
        open_ = any(
            row.end is not LocalTransactionState.UNKNOWN and row.record.decided == float("inf") for row in self._known()
        )
        return got.issuperset(wanted | committed) and not open_

    def _known(self) -> list[Row]:
        return [row for row in self.database.rows.values() if row.record.send.outcome is Outcome.OK]


def _consumers() -> Observation:
    """What consumers get, from now on."""
    return Observation(name="the consumers", complete=False)


def _plain(member: Member, **settings: Any) -> Producer:
    return Producer(member.team.name, **settings)


def _followed() -> Callable[[], int]:
    """The calendar of the cluster, which goes with the clock of the loop."""
    clock = trio.lowlevel.current_clock()
    began = wall_ms() - clock.current_time() * 1000
    return lambda: int(began + clock.current_time() * 1000)
