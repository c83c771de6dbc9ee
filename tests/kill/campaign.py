"""The kill loop itself: starts everybody, does to them what the plan says, lets them heal, and stops them in order."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial

import trio

from tests.kill import store_check
from tests.kill.child import Child
from tests.kill.content import GROUPS, MEMBERS
from tests.kill.guard import Guard
from tests.kill.history import History
from tests.kill.plan import PAUSE_SECONDS, Cycle
from tests.kill.servers import Servers
from tests.kill.telling import now

PRODUCERS, LANES = 4, 4
TRANSACTOR = "producer-transactions"
"""The role that sends in transactions."""
PAUSE_BETWEEN_SENDS = 0.0
BOOT_SECONDS = 90.0
HEAL_SECONDS = 35.0
"""Within which somebody has to get on who is not hindered any more."""
STOP_SECONDS = 60.0
CHECK_EVERY = 5
"""Of so many kills one is followed by a check of all files of the store."""
EVENTS = "events.txt"
"""Everything that was printed, for finding the reason of a violation."""
NO_ACK_BEFORE = 50.0
"""Milliseconds that a broker needs to start at least: what is acknowledged before is the last word of the old one."""


class StuckError(AssertionError):
    """Somebody does not go on, though nothing is in the way any more."""


@dataclass
class Timing:
    """How long a restart took, ms from the start of the process.

    Attributes:
        serving: Until the broker said that it serves.
        first_ack: Until a send was acknowledged.
        waited: How much of that the broker had to wait for a processor.
    """

    serving: float | None = None
    first_ack: float | None = None
    waited: float = 0.0


@dataclass
class Outcome:
    """What a run showed."""

    history: History
    restarts: list[Timing] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What is wrong with the files of the store after kills."""
    timed: tuple[int, ...] = ()
    """Of timer messages: sent, early, lost, delivered though they were recalled, delivered more than once."""
    seconds: float = 0.0


class Campaign:
    """One run of the loop."""

    def __init__(self, servers: Servers, nursery: trio.Nursery, guard: Guard, least_acked: int = 0) -> None:
        self._least_acked = least_acked
        self._guard = guard
        self._servers = servers
        self._nursery = nursery
        self._history = History()
        self._children: dict[str, Child] = {}
        self._lives: dict[str, int] = {}
        self._paused: set[str] = set()
        self.outcome = Outcome(self._history)

    # --- starting --------------------------------------------------------------------------------------

    async def run(self, cycles: list[Cycle]) -> Outcome:
        """Run all cycles, heal, stop."""
        began = time.monotonic()
        self._servers.write()
        with (self._servers.home / EVENTS).open("w") as self._events:
            await self._run(cycles)
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    async def _run(self, cycles: list[Cycle]) -> None:
        for command in ("namesrv", "broker"):
            await self._start_server(command)
            await self._wait_ready()
        await self._servers.create_topics()
        for role in MEMBERS:
            await self._start_client(role)
        for number in range(PRODUCERS):
            await self._start_client(f"producer-{number}")
        await self._start_client(TRANSACTOR)
        await self._start("timers", ["tests.kill.timing", self._servers.name_server, "timers"])
        await self._wait_ready()
        for number, cycle in enumerate(cycles, 1):
            await self._cycle(cycle)
            if number % CHECK_EVERY == 0:
                await self._check(f"after kill {number}")
            await self._restart_broker()
        await self._heal()
        await self._stop()

    async def _start(self, role: str, arguments: list[str]) -> Child:
        life = self._lives[role] = self._lives.get(role, -1) + 1
        name = f"{role}-{life}" if role.startswith(("consumer", "producer")) else role
        arguments = [name if word == role else word for word in arguments]
        log = self._servers.home / f"{name}.err"
        child = await Child.start(self._nursery, self._guard, name, arguments, log, self._take)
        self._children[role] = child
        self._events.write(f"- start {name} {now():.3f}\n")
        return child

    async def _start_server(self, command: str) -> Child:
        return await self._start(command, self._servers.arguments(command))

    async def _start_client(self, role: str) -> None:
        address = self._servers.name_server
        if role == TRANSACTOR:
            await self._start(role, ["tests.kill.transacting", address, role, self._servers.broker])
        elif role.startswith("producer"):
            rest = [str(LANES), str(PAUSE_BETWEEN_SENDS)]
            await self._start(role, ["tests.kill.producing", address, role, *rest])
        else:
            offsets = str(self._servers.home / "offsets")
            child = await self._start(role, ["tests.kill.consuming", address, role, offsets])
            self._fault("start", child.name)  # a member that joins takes queues over

    async def _wait_ready(self) -> None:
        for role, child in self._children.items():
            word = f"rocketpy-{role}" if role in ("namesrv", "broker") else "ready"
            if not await child.wait_said(word, BOOT_SECONDS):
                raise StuckError(f"{child.name} does not start: see {self._servers.home}")

    def _take(self, child: Child, words: list[str]) -> None:
        self._events.write(f"{child.name} {' '.join(words)}\n")
        if words[0] in ("send", "ok", "fail", "info"):
            self._history.note_send(words)
        elif words[0] in ("half", "taken", "unsent", "unknown", "asked"):
            self._history.note_transaction(words)
        elif words[0] in ("got", "bad"):
            self._history.note_delivery(child.name, words)
        elif words[0] == "done":
            self._history.note_end(child.name, words)
        elif words[0] == "timed":
            self.outcome.timed = tuple(map(int, words[3:]))
        elif words[0] == "broke":
            self.outcome.stuck.append(f"{child.name} broke off: {' '.join(words[3:])}")

    def _fault(self, kind: str, target: str) -> None:
        at = now()
        self._history.note_fault(kind, at, target)
        self._events.write(f"- {kind} {target} {at:.3f}\n")

    # --- a cycle ---------------------------------------------------------------------------------------

    async def _cycle(self, cycle: Cycle) -> None:
        """Let the broker serve, and kill it as planned."""
        broker = self._children["broker"]
        if cycle.also:
            await self._also(cycle.also)
        if cycle.after_acks:
            await self._acknowledged(cycle.after_acks)
        else:
            if not cycle.from_start:
                await self._serving(broker)
            await trio.sleep(cycle.after_seconds)
        self._fault("kill", "broker")
        await broker.kill()

    async def _check(self, when: str) -> None:
        """What a kill leaves has to be a store that only needs to be recovered."""
        check = partial(store_check.problems, self._servers, when, killed=True)
        self.outcome.problems += await trio.to_thread.run_sync(check)

    async def _acknowledged(self, more: int) -> None:
        """Wait for so many more acknowledgements."""
        wanted = self._history.acked + more
        if not await self._history.wait_done(lambda: wanted - self._history.acked, HEAL_SECONDS):
            self.outcome.stuck.append(f"no acknowledgement came in {HEAL_SECONDS:g} s")

    async def _restart_broker(self) -> None:
        timing = Timing()
        self.outcome.restarts.append(timing)
        known, began = len(self._history.sends), now()
        broker = await self._start_server("broker")
        self._nursery.start_soon(self._clock, broker, timing, known, began)

    async def _clock(self, broker: Child, timing: Timing, known: int, began: float) -> None:
        """Find out how long a restart takes, unless the next kill is faster."""
        if await broker.wait_said("rocketpy-broker", BOOT_SECONDS):
            timing.serving = now() - began

        def first() -> float | None:
            return self._history.first_ack(known, began + NO_ACK_BEFORE)

        await self._history.wait_for(lambda: first() is not None or broker.killed, HEAL_SECONDS)
        if (found := first()) is not None:
            timing.first_ack, timing.waited = found - began, broker.waited()

    async def _serving(self, broker: Child) -> None:
        if not await broker.wait_said("rocketpy-broker", BOOT_SECONDS):
            raise StuckError(f"the broker does not start again, status {broker.status}: see {self._servers.home}")

    # --- what is done beside ---------------------------------------------------------------------------

    async def _also(self, what: str) -> None:
        await self._serving(self._children["broker"])
        if what == "name server":
            self._fault("kill", "namesrv")
            await self._children["namesrv"].kill()
            await self._start_server("namesrv")
        elif what in ("consumer", "producer"):
            await self._replace(what)
        elif what == "pause broker":
            await self._acknowledged(1)
            await self._pause("broker")
        else:
            self._nursery.start_soon(self._pause, self._next("consumer"))

    def _next(self, kind: str) -> str:
        """Who of a kind has lived fewest lives, and is not paused."""
        roles = (role for role in self._children if role.startswith(kind) and role not in self._paused)
        return min(roles, key=lambda role: self._lives[role])

    async def _replace(self, kind: str) -> None:
        role = self._next(kind)
        child = self._children[role]
        self._fault("kill", child.name)
        await child.kill()
        self._history.give_up(child.name, now())
        await self._start_client(role)

    async def _pause(self, role: str) -> None:
        child = self._children[role]
        self._paused.add(role)
        self._fault("pause", child.name)
        child.pause()
        await trio.sleep(PAUSE_SECONDS)
        child.go_on()
        self._paused.discard(role)
        self._fault("go on", child.name)

    # --- the end ---------------------------------------------------------------------------------------

    async def _heal(self) -> None:
        """Without faults every lane gets an answer again, and every group gets what was acknowledged."""
        await self._serving(self._children["broker"])
        began = now()
        lanes = {
            f"{child.name}.{number}"
            for role, child in self._children.items()
            if role.startswith("producer") and role != TRANSACTOR
            for number in range(LANES)
        }

        def behind() -> set[str]:
            return {lane for lane in lanes if self._history.last_ack.get(lane, 0.0) < began}

        if not await self._history.wait_done(lambda: len(behind()), HEAL_SECONDS):
            self.outcome.stuck += [f"{lane} got no answer in {HEAL_SECONDS:g} s" for lane in sorted(behind())]
        # A machine that is busy with other things gets through fewer sends between two kills.
        await self._acknowledged(max(0, self._least_acked - self._history.acked))
        await self._stop_all("producer")
        acked = {(send.queue_id, send.offset) for send in self._history.sends if send.kind == "ok"}
        missing = {group: set(acked) for group in GROUPS}
        position = 0

        def undelivered() -> int:
            nonlocal position
            for each in self._history.deliveries[position:]:
                missing[each.group].discard((each.queue_id, each.offset))
            position = len(self._history.deliveries)
            return sum(map(len, missing.values()))

        await self._history.wait_done(undelivered, HEAL_SECONDS)
        await self._stop_all("timers")

    async def _stop_all(self, kind: str) -> None:
        for role, child in self._children.items():
            if role.startswith(kind) and not await child.stop(STOP_SECONDS):
                self.outcome.stuck.append(f"{child.name} did not end in order, status {child.status}")

    async def _stop(self) -> None:
        for kind in ("consumer", "broker", "namesrv"):
            await self._stop_all(kind)
