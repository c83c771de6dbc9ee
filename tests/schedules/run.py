"""Runs a schedule on a cluster in memory."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import trio
from trio._core import _run as trio_run
from trio.testing import MockClock

from rocketpy import ConfigError, Message, Producer, RocketMQError
from rocketpy.remoting.memory import MemoryLink, MemoryNetwork
from rocketpy.seams import set_random_seed, wall_clock
from rocketpy_broker_sim import LocalCluster
from tests.schedules.history import Delivery, Fault, History, Kind, Sent
from tests.schedules.members import Leash, Member, World, member_of
from tests.schedules.plan import DISTURBED, MOST_ATTEMPTS, TOPIC, Event, GroupPlan, Plan
from tests.virtual_time import loop_time

__all__ = ["run"]

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
LOOK = 0.5
_EPOCH = 1_700_000_000_000


def run(plan: Plan) -> History:
    """Carry a schedule out, in a loop of its own with a mock clock. The same plan takes the same course."""
    with _deterministic(plan.seed):
        return trio.run(_Run(plan).everything, clock=MockClock(autojump_threshold=0))


@contextmanager
def _deterministic(seed: int) -> Iterator[None]:
    """Have trio choose the order of its tasks by the seed."""
    switches = vars(trio_run)
    before, state = switches["_ALLOW_DETERMINISTIC_SCHEDULING"], trio_run._r.getstate()
    switches["_ALLOW_DETERMINISTIC_SCHEDULING"] = True
    trio_run._r.seed(seed)
    set_random_seed(seed)
    try:
        yield
    finally:
        switches["_ALLOW_DETERMINISTIC_SCHEDULING"] = before
        trio_run._r.setstate(state)
        set_random_seed(None)


class _Run:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.chance = random.Random(plan.seed)
        self.history = History(
            {group.name: group.kind for group in plan.groups},
            MOST_ATTEMPTS,
            refusing=frozenset(group.name for group in plan.groups if group.refuses_bad),
        )
        self.network = MemoryNetwork()
        self.members: list[Member] = []
        self.sending = True
        self._count = 0
        self._down = trio.Lock()
        self._names: list[str] = []

    async def everything(self) -> History:
        with wall_clock(loop_time(_EPOCH)):
            async with LocalCluster(self.plan.brokers, network=self.network) as self.cluster:
                await self.cluster.create_topic(TOPIC, queues=self.plan.queues)
                self._names = [broker.config.broker_name for broker in self.cluster.brokers]
                links, tasks = set(self.network.links()), trio.lowlevel.current_statistics().tasks_living
                async with trio.open_nursery() as self.nursery:
                    await self._live()
                await trio.sleep(1)
                self._look_for_left_over(links, tasks)
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
        watching.cancel()
        for member in self.members:
            member.leave() if not member.dead else member.kill()

    # --- members --------------------------------------------------------------------------------------

    async def _join(self, group: GroupPlan) -> None:
        self._count += 1
        member = member_of(f"{group.name}-{self._count}", group, self.history, self.chance, self._leashed())
        self.members.append(member)
        await self.nursery.start(member.run)

    def _leashed(self) -> World:
        return World(self.cluster.name_server_addresses, Leash(self.network))

    def _present(self, group: str) -> list[Member]:
        return [member for member in self.members if member.group.name == group and not member.dead]

    def _one_of(self, group: str) -> Member | None:
        """Somebody who can go: a group keeps one."""
        present = self._present(group)
        return self.chance.choice(present) if len(present) > 1 else None

    # --- what happens ---------------------------------------------------------------------------------

    async def _happen(self, event: Event) -> None:
        await trio.sleep_until(event.at)
        group = next(each for each in self.plan.groups if each.name == event.group)
        if event.what == "join":
            self._note(event.what, group.name)
            await self._join(group)
        elif event.what in ("leave", "kill", "unplug"):
            await self._go(event.what, group.name)
        elif event.what == "cut links":
            self._note(event.what)
            with suppress(ConfigError):  # it is away
                await self.cluster.cut_connections(event.broker)
        elif event.what == "lose answers":
            with suppress(ConfigError):
                self.cluster.lose_answers(3, broker=event.broker)
        else:
            async with self._down:
                await self._broker_goes(event)

    async def _go(self, how: str, group: str) -> None:
        member = self._one_of(group)
        if member is None:
            return
        self._note(how, group)
        member.dead = True
        {"leave": member.leave, "kill": member.kill, "unplug": member.unplug}[how]()

    async def _broker_goes(self, event: Event) -> None:
        name = self._names[event.broker]
        self._note(event.what, broker=name)
        if event.what == "restart broker":
            await self.cluster.restart_broker(event.broker)
        else:
            await self.cluster.kill_broker(event.broker)
            await trio.sleep(event.lasts)
            await self.cluster.start_broker(event.broker)
        self._note(f"{event.what}, back", broker=name)

    def _note(self, what: str, group: str = "", *, broker: str = "") -> None:
        lasts = MISSED_WITHIN if what == "unplug" else FOUND_WITHIN if broker else 0.0
        self.history.faults.append(Fault(trio.current_time(), what, group, broker=broker, lasts=lasts))

    def _heal(self) -> None:
        """From now on nothing is disturbed; but of members that were cut off, brokers have yet to take notice."""
        self.cluster.heal()
        missed = [fault.at + MISSED_WITHIN for fault in self.history.faults if fault.what == "unplug"]
        self.history.settled = max([trio.current_time(), *missed])

    # --- sending --------------------------------------------------------------------------------------

    async def _produce(self, name: str) -> None:
        async with self._producer(name) as producer:
            number = 0
            while trio.current_time() < DISTURBED:
                await self._send(producer, name, f"{name}-{number}")
                number += 1
                await trio.sleep(self.chance.uniform(0, 2 * self.plan.pause))

    @asynccontextmanager
    async def _producer(self, name: str) -> AsyncIterator[Producer]:
        async with Producer(name, namesrv=self.cluster.name_server_addresses, network=self.network) as producer:
            yield producer

    async def _send(self, producer: Producer, who: str, name: str) -> None:
        if self.chance.random() < self.plan.bad:
            self.history.bad |= {name}
        began = trio.current_time()
        try:
            result = await producer.send(Message(TOPIC, name.encode()))
        except RocketMQError as error:
            outcome = "fail" if error.nothing_sent else "info"
            self.history.sends.append(Sent(name=name, producer=who, began=began, outcome=outcome))
            return
        queue = result.queue
        self.history.sends.append(
            Sent(
                name=name,
                producer=who,
                began=began,
                outcome="ok",
                place=(queue.broker_name, queue.queue_id),
                offset=result.queue_offset,
            )
        )

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
            for group, kind in self.history.groups.items():
                for queue in range(self.plan.queues) if kind is not Kind.BROADCAST else ():
                    offset = broker.offsets.query(group, TOPIC, queue)
                    known = self.history.commits.setdefault((group, (broker.config.broker_name, queue)), [])
                    if not known or known[-1][1] != offset:
                        known.append((now, offset))

    async def _wait_all_delivered(self) -> None:
        """Until every group has dealt with everything, as long as that may take."""
        with trio.move_on_at(self.history.settled + HEALED_WITHIN):
            while not all(map(self._has_all, self.plan.groups)):  # noqa: ASYNC110  it has no event
                await trio.sleep(LOOK)

    def _has_all(self, group: GroupPlan) -> bool:
        wanted = {each.name for each in self.history.sends if each.outcome == "ok"}
        dealt_with = {each.name for each in self._of(group) if each.done}
        for each in self._of(group):
            if self.history.is_refused(each) and each.attempt >= MOST_ATTEMPTS and each.ended is not None:
                dealt_with.add(each.name)
        return wanted <= dealt_with

    def _of(self, group: GroupPlan) -> list[Delivery]:
        return [each for each in self.history.deliveries if each.group == group.name]

    async def _wait_shared_out(self) -> None:
        within = SHARED_OUT_WITHIN + (BACK_WITHIN if self._were_away() else 0.0)
        await trio.sleep(max(0.0, self.history.settled + within - trio.current_time()))
        for group in self.plan.groups:
            self.history.stayed[group.name] = {member.name: member.joined for member in self._present(group.name)}
            self._note_owners(group)
            with suppress(RocketMQError):
                found = self.cluster.dead_letters(group.name)
                self.history.dead_letters[group.name] = [str(message.body, "ascii") for message in found]

    def _note_owners(self, group: GroupPlan) -> None:
        for broker in self.cluster.brokers:
            for queue in range(self.plan.queues):
                self.history.owners[group.name, (broker.config.broker_name, queue)] = []
        for member in self._present(group.name):
            for each in member.consumer.assignment:
                self.history.owners.setdefault((group.name, (each.broker_name, each.queue_id)), []).append(member.name)

    def _were_away(self) -> set[str]:
        """Brokers that were started again."""
        return {fault.broker for fault in self.history.faults if fault.broker}

    def _look_for_left_over(self, links: set[MemoryLink], tasks: int) -> None:
        more = [link for link in self.network.links() if link not in links]
        now = trio.lowlevel.current_statistics().tasks_living
        # A broker that was restarted has another link to the name servers, and as many tasks.
        if len(more) > len(self._were_away()) or now > tasks:
            self.history.left_over.append(f"{len(more)} new links, {now} tasks where there were {tasks}")
        if not any(fault.what in ("kill", "unplug") for fault in self.history.faults):
            self._look_into_tables()

    def _look_into_tables(self) -> None:
        """Everybody has said goodbye: no broker knows of a member, or of a lock."""
        for broker in self.cluster.brokers:
            clients = broker.clients
            groups = [group.name for group in clients.consumers.groups()]
            if groups or len(clients.locks):
                name = broker.config.broker_name
                self.history.left_over.append(f"{name} has {len(clients.locks)} locks, and members of {groups}")
