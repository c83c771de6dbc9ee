"""Runs a schedule on a cluster in memory."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import trio
from trio._core import _run as trio_run
from trio.testing import MockClock

from rocketpy import ConfigError, Message, MessageQueue, Producer, RocketMQError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import set_random_seed, wall_clock
from rocketpy_broker_sim import LocalCluster
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.checker import ENOUGH, Fault, Group, Kind, Outcome, Send
from tests.schedules.ending import Left, note_end
from tests.schedules.history import History
from tests.schedules.judge import COMMITTED_WITHIN, WRITTEN_WITHIN
from tests.schedules.members import Listening, Member
from tests.schedules.plan import AMOUNT, DISTURBED, MOST_ATTEMPTS, TAGS, TOPIC, Event, GroupPlan, Plan
from tests.schedules.polling import Polling
from tests.schedules.resets import reset
from tests.schedules.world import Leash, World
from tests.virtual_time import loop_time

__all__ = ["deterministic", "run"]

HEALED_WITHIN = 120.0
"""Seconds in which everything has reached every group once nothing is disturbed any more."""
MISSED_WITHIN = 135.0
"""Seconds after which brokers take a member that says nothing for gone, the interval of their look included."""
FOUND_WITHIN = 35.0
"""Seconds after which all clients have found a broker that is back; until then it does not know all members."""
SHARED_OUT_WITHIN = 40.0
"""Seconds in which each queue has one owner: two rounds of sharing out."""
BACK_WITHIN = 30.0
"""Seconds more where a broker was away: so often clients look for those that are back."""
LOCK_LIFE = 60.0
"""Seconds for which a broker keeps the locks of a member that was killed."""
LOOK = 0.5
BURST = 3
"""How many messages a producer sends in a row, on average."""
_EPOCH = 1_700_000_000_000


def run(plan: Plan) -> History:
    """Carry a schedule out, in a loop of its own with a mock clock. The same plan takes the same course."""
    with deterministic(plan.seed):
        return trio.run(_Run(plan).everything, clock=MockClock(autojump_threshold=0))


@contextmanager
def deterministic(seed: int) -> Iterator[None]:
    """Have trio choose the order of the tasks of this thread by the seed."""
    switches = vars(trio_run)
    before = {name: switches[name] for name in ("_ALLOW_DETERMINISTIC_SCHEDULING", "_r")}
    switches |= {"_ALLOW_DETERMINISTIC_SCHEDULING": True, "_r": _OfOneThread(seed)}
    set_random_seed(seed)
    try:
        yield
    finally:
        switches |= before
        set_random_seed(None)


class _OfOneThread(random.Random):
    """Follows its seed in the thread that made it. Clusters of other tests, in other threads, take nothing from it."""

    def __init__(self, seed: int) -> None:
        self._thread, self._others = threading.get_ident(), random.Random()
        super().__init__(seed)

    def random(self) -> float:
        return super().random() if threading.get_ident() == self._thread else self._others.random()

    def getrandbits(self, k: int, /) -> int:
        return super().getrandbits(k) if threading.get_ident() == self._thread else self._others.getrandbits(k)


class _Run:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = random.Random(plan.seed)
        self.history = History({})
        for group in plan.groups:
            bad = self.history.bad if group.refuses_bad else frozenset[str]()
            made = Group(name=group.name, kind=group.kind, bad=bad, most_attempts=MOST_ATTEMPTS)
            self.history.groups[group.name] = made
        self.network = MemoryNetwork()
        self.members: list[Member] = []
        self.disks: dict[str, MemoryStorage] = {}
        self._down = trio.Lock()
        self._names: list[str] = []
        self._said_goodbye = True
        self._acknowledged = 0

    async def everything(self) -> History:
        with wall_clock(loop_time(_EPOCH)):
            settings = {"use_server_side_reset_offset": not self.plan.tells_clients}
            async with LocalCluster(self.plan.brokers, network=self.network, **settings) as self.cluster:
                await self.cluster.create_topic(TOPIC, queues=self.plan.queues)
                self._names = [broker.config.broker_name for broker in self.cluster.brokers]
                left = Left(self.cluster, self.network)
                async with trio.open_nursery() as self.nursery:
                    await self._live()
                await trio.sleep(1)
                groups = self.history.groups if self._said_goodbye else ()
                left.look(self.history.left_over, len(self._were_away()), groups)
        return self.history

    async def _live(self) -> None:
        for group in self.plan.groups:
            for _ in range(group.members):
                await self._join(group)
        watching = trio.CancelScope()
        self.nursery.start_soon(self._watch, watching)
        async with trio.open_nursery() as disturbing:
            for number in range(self.plan.producers):
                disturbing.start_soon(self._produce, f"p{number}")
            for event in self.plan.events:
                disturbing.start_soon(self._happen, event)
        self._heal()
        await self._wait_all_delivered()
        await self._wait_shared_out()
        note_end(self.history, self.plan, self.cluster, self.members)
        watching.cancel()
        for member in self.members:
            member.leave() if not member.dead else member.kill()

    # --- members --------------------------------------------------------------------------------------

    async def _join(self, group: GroupPlan, name: str = "") -> None:
        """Start a new member, or one that had left, under its name and with its disk."""
        name = name or f"{group.name}-{len(self.members) + 1}"
        world = World(
            self.cluster.name_server_addresses,
            Leash(self.network),
            self.disks.setdefault(name, MemoryStorage()),
            self.history,
            self.chance,
            self._end_of,
        )
        member = Polling(name, group, world) if group.kind is Kind.POLLED else Listening(name, group, world)
        self.members.append(member)
        await self.nursery.start(member.run)
        self._share_out(group.name)

    def _share_out(self, name: str) -> None:
        """In a group whose members choose their queues themselves, have each choose its share."""
        present = [each for each in self._present(name) if isinstance(each, Polling) and each.plan.assigns]
        names, queues = self._names, range(self.plan.queues)
        everything = [MessageQueue(TOPIC, broker, number) for broker in names for number in queues]
        for number, member in enumerate(present):
            member.assign(everything[number :: len(present)])

    def _present(self, group: str) -> list[Member]:
        return [member for member in self.members if member.plan.name == group and not member.dead]

    def _one_of(self, group: str) -> Member | None:
        """Somebody who can go: a group keeps one."""
        present = self._present(group)
        return self.chance.choice(present) if len(present) > 1 else None

    def _end_of(self, queue: MessageQueue) -> int:
        [broker] = [each for each in self.cluster.brokers if each.config.broker_name == queue.broker_name]
        return broker.store.reads.max_offset(queue.topic, queue.queue_id)

    # --- what happens ---------------------------------------------------------------------------------

    async def _happen(self, event: Event) -> None:
        await trio.sleep_until(event.at)
        group = next(each for each in self.plan.groups if each.name == event.group)
        if event.what == "join":
            self._note_member(event.what, group)
            await self._join(group)
        elif event.what == "restart":
            await self._restart(group, event.lasts)
        elif event.what in ("leave", "kill", "unplug"):
            self._go(event.what, group)
        elif event.what in ("back", "skip"):
            await self._reset(event)
        elif event.what == "cut links":
            self._note(event.what)
            with suppress(ConfigError):  # it is away
                await self.cluster.cut_connections(event.broker)
        elif event.what == "lose answers":
            self._note(event.what)
            with suppress(ConfigError):
                self.cluster.lose_answers(3, broker=event.broker)
        else:
            async with self._down:
                await self._broker_goes(event)

    def _go(self, how: str, group: GroupPlan) -> None:
        member = self._one_of(group.name)
        if member is not None:
            self._end(member, how, group)

    def _end(self, member: Member, how: str, group: GroupPlan) -> None:
        self._note_member(how, group, member.name)
        member.dead = True
        member.life.left = trio.current_time()
        self._said_goodbye &= how == "leave"
        {"leave": member.leave, "kill": member.kill, "unplug": member.unplug}[how]()
        self._share_out(group.name)

    async def _restart(self, group: GroupPlan, pause: float) -> None:
        """Close or kill a member of a broadcast, and start it again after a while with the file that it left."""
        present = self._present(group.name)
        if not present:
            return
        member = self.chance.choice(present)
        self._end(member, self.chance.choice(("leave", "kill")), group)
        await trio.sleep(pause)
        await member.ended.wait()
        self.history.had["returned to a file"] += 1
        await self._join(group, member.name)

    async def _reset(self, event: Event) -> None:
        broker = self.cluster.brokers[event.broker]
        back = event.lasts if event.what == "back" else None
        moved = await reset(broker, self.network, self.cluster.name_server_addresses, event.group, back)
        self.history.groups[event.group].faults += moved
        self.history.had[f"reset {event.what}"] += bool(moved)

    async def _broker_goes(self, event: Event) -> None:
        name = self._names[event.broker]
        self._note(event.what, name)
        if event.what == "restart broker":
            await self.cluster.restart_broker(event.broker)
        else:
            await self.cluster.kill_broker(event.broker)
            await trio.sleep(event.lasts)
            await self.cluster.start_broker(event.broker)
        self._note(f"{event.what}, back", name)

    def _note(self, what: str, broker: str = "") -> None:
        """Record an event that affects all groups; if offsets are kept in a file, it causes no redeliveries."""
        self.history.had[what] += 1
        for group in self.history.groups.values():
            within = COMMITTED_WITHIN + (WRITTEN_WITHIN if broker else 0.0)
            lasts = FOUND_WITHIN if broker else 0.0
            repeats = group.kind is not Kind.BROADCAST
            group.faults.append(
                Fault(at=trio.current_time(), what=what, lasts=lasts, within=within, broker=broker, repeats=repeats)
            )

    def _note_member(self, what: str, group: GroupPlan, name: str = "") -> None:
        """Record that a member comes or goes. In a broadcast only a kill causes redeliveries, to that member alone."""
        self.history.had[what] += 1
        lasts = MISSED_WITHIN if what == "unplug" else 0.0
        fault = Fault(at=trio.current_time(), what=what, lasts=lasts, within=COMMITTED_WITHIN)
        if group.kind is Kind.BROADCAST:
            fault = Fault(
                at=trio.current_time(), what=what, settles=0.0, within=COMMITTED_WITHIN, consumer=name or "nobody",
                repeats=what == "kill",
            )  # fmt: skip
        self.history.groups[group.name].faults.append(fault)

    def _heal(self) -> None:
        """From now on nothing is disturbed; but of members that were cut off, brokers have yet to take notice."""
        self.cluster.heal()
        faults = [fault for group in self.history.groups.values() for fault in group.faults]
        missed = [fault.at + MISSED_WITHIN for fault in faults if fault.what == "unplug"]
        self.history.settled = max([trio.current_time(), *missed])

    # --- sending --------------------------------------------------------------------------------------

    async def _produce(self, name: str) -> None:
        async with Producer(name, namesrv=self.cluster.name_server_addresses, network=self.network) as producer:
            number = 0
            while trio.current_time() < DISTURBED or self._acknowledged < ENOUGH:
                for _ in range(self.chance.randrange(1, 2 * BURST)):
                    await self._send(producer, name, f"{name}-{number}")
                    number += 1
                await trio.sleep(self.chance.uniform(0, 2 * BURST * self.plan.pause))

    async def _send(self, producer: Producer, who: str, name: str) -> None:
        if self.chance.random() < self.plan.bad:
            self.history.bad.add(name)
        tags, properties = self.chance.choice(TAGS), {AMOUNT: str(self.chance.randrange(10))}
        made = {"id": name, "topic": TOPIC, "body": name.encode(), "tags": tags, "properties": properties}
        began = trio.current_time()
        try:
            result = await producer.send(Message(TOPIC, name.encode(), tags=tags, properties=properties))
        except RocketMQError as error:
            outcome = Outcome.FAIL if error.nothing_sent else Outcome.INFO
            sent = Send(**made, outcome=outcome, producer=who, began=began, ended=trio.current_time())
        else:
            self._acknowledged += 1
            place = result.queue.queue_id, result.queue_offset
            sent = Send(
                **made, outcome=Outcome.OK, producer=who, began=began, ended=trio.current_time(),
                broker=result.queue.broker_name, place=place,
            )  # fmt: skip
        self.history.sends.append(sent)

    # --- looking --------------------------------------------------------------------------------------

    async def _watch(self, scope: trio.CancelScope) -> None:
        """Write down what groups have committed, whenever it has changed."""
        with scope:
            while True:
                self._look_at_offsets()
                await trio.sleep(LOOK)

    def _look_at_offsets(self) -> None:
        now = trio.current_time()
        for broker in self.cluster.brokers:
            for group in self.history.groups.values():
                for queue in range(self.plan.queues) if group.kind is not Kind.BROADCAST else ():
                    line = TOPIC, broker.config.broker_name, queue
                    group.note_commit(now, line, broker.offsets.query(group.name, TOPIC, queue))

    async def _wait_all_delivered(self) -> None:
        """Until every group has dealt with everything, as long as that may take."""
        with trio.move_on_at(self.history.settled + HEALED_WITHIN):
            while not all(map(self._has_all, self.plan.groups)):  # noqa: ASYNC110  it has no event
                await trio.sleep(LOOK)

    def _has_all(self, plan: GroupPlan) -> bool:
        group = self.history.groups[plan.name]
        dealt_with = {each.id for each in group.deliveries if each.succeeded}
        for each in group.deliveries:
            if each.id in group.bad and each.attempt >= MOST_ATTEMPTS and each.ended is not None:
                dealt_with.add(each.id)
        return all(
            send.id in dealt_with or (send.place is not None and group.is_skipped(send.line, send.place[1]))
            for send in self.history.sends
            if send.outcome is Outcome.OK and plan.filter.lets_through(send)
        )

    async def _wait_shared_out(self) -> None:
        within = SHARED_OUT_WITHIN + (BACK_WITHIN if self._were_away() else 0.0)
        freed = [
            fault.at + LOCK_LIFE
            for group in self.history.groups.values()
            for fault in group.faults
            if group.kind is Kind.ORDERLY and fault.what in ("kill", "unplug")
        ]
        await trio.sleep(max(0.0, max([self.history.settled, *freed]) + within - trio.current_time()))

    def _were_away(self) -> set[str]:
        """Brokers that were started again."""
        return {fault.broker for group in self.history.groups.values() for fault in group.faults if fault.broker}
