"""A timer over a small store: what the tests of its files share."""

from __future__ import annotations

import io
import tarfile

from rocketpy.wire.names import TIMER_TOPIC
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.steps import finish
from rocketpy_broker_sim.store.timer.store import TimerEntry, TimerStore
from rocketpy_broker_sim.store.timer.units import PLAIN, TimerUnit
from tests.broker_sim.store.helpers import message, open_store, put_all
from tests.golden_store import FOLDER

NOW = 1_800_000_000_000
TICK = NOW // 1000


class Kit:
    """A store, and the timer on it."""

    def __init__(self, storage: MemoryStorage | None = None, *, now: int = NOW, **settings: int) -> None:
        self.storage = MemoryStorage() if storage is None else storage
        self.store: MessageStore = open_store(self.storage, mapped_file_size_timer_log=200, **settings)
        self.timers = TimerStore(self.storage, self.store.config, self.store)
        self.timers.load(now)

    def put(self, count: int = 1) -> list[tuple[int, int]]:
        """Messages in the timer's topic: position and size of each."""
        messages = [message(b"%d" % number, topic=TIMER_TOPIC) for number in range(count)]
        return [(result.physical_offset, result.size) for result in put_all(self.store, messages)]

    def add(self, *ticks: int, kind: int = PLAIN, now: int = NOW) -> list[tuple[int, int]]:
        """Put messages into the slots of these ticks from now."""
        placed = self.put(len(ticks))
        entries = [TimerEntry(TICK + tick, kind, *place, 7) for tick, place in zip(ticks, placed, strict=True)]
        self.timers.add(entries, now)
        self.timers.take_up_to(self.timers.queue_offset + len(ticks))
        return placed

    def units(self, tick: int) -> list[TimerUnit]:
        slot = self.timers.wheel.get(TICK + tick)
        return [] if slot is None else finish(self.timers.units_steps(slot))

    def positions(self, tick: int) -> list[int]:
        """The positions of the messages of a slot."""
        return [unit.position for unit in self.units(tick)]

    def flush(self, now: float = NOW) -> None:
        what = self.timers.prepare(now)
        self.store.flushing.commit_log.flush()
        self.timers.flush(what)

    def killed(self, *, now: int = NOW, **settings: int) -> Kit:
        """The storage that the next process finds after a kill."""
        return Kit(self.storage.clone(), now=now, **settings)


def golden_file(name: str) -> bytes:
    """A file of the store with timers that Apache's broker left; the wheel is not unpacked with the others."""
    with tarfile.open(FOLDER / "5.3.3-timer" / "store.tar.xz") as packed:
        found = packed.extractfile(f"store/{name}")
        assert isinstance(found, io.BufferedReader)
        return found.read()
