"""A broker with timers whose power fails, and what must come of its messages: none early, none lost, none recalled.

Messages are sent for moments of their own, some beyond the window, and some are recalled. The services of the timer run
by hand, and its clock is the wall clock. After the crash time goes on until all is due, then everything that was
delivered is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Any

import attrs

from rocketpy.errors import StoreError
from rocketpy.message import PropertyName
from rocketpy.seams import wall_clock, wall_ms
from rocketpy.wire.message_codec import decode_messages
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.putting.put_pipeline import Put
from rocketpy_broker_sim.broker.timer.clock import TimerClock
from rocketpy_broker_sim.broker.timer.parts import TimerParts
from rocketpy_broker_sim.broker.timer.service import TimerService
from rocketpy_broker_sim.broker.timer.times import delete_key
from rocketpy_broker_sim.broker.timer.waiting import OpenSlots
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.store.put_result import IncomingMessage, PutMessageStatus
from rocketpy_broker_sim.store.timer.store import TimerStore
from tests.crash.driver import CLOCK, HOST, Driver
from tests.crash.sim_disk import SimDisk
from tests.crash.workloads import Recording, Workload, play

__all__ = ["TimedRecording", "near_timer", "problems_after", "recorded"]

LENGTH = 1500
SLOTS = 200
"""Far fewer slots than a real wheel, whose 38 MB a simulated disk would copy."""
STEP_MS = 700
DOWN_MS = (300, 3000, 60_000)
"""How long it takes until the broker is started again."""
SETTINGS = (("mapped_file_size_timer_log", 600), ("timer_roll_window_slot", 5), ("mapped_file_size_commit_log", 16384))
TOPIC = "Orders"


@attrs.define(eq=False)
class Timed:
    """A timer message that was put, or what recalls one; the times are those of `driver.Sent`."""

    id: str
    due: int
    end: int
    recalls: str | None = None
    written: int | None = None
    durable: int | None = None


@attrs.define
class Checkpoint:
    """A flush of the timer: when it was on the disk, in operations, and which slots were over by then, ms."""

    done: int
    read_ms: int


class TimedDriver(Driver):
    """A broker with timers, without its services.

    Attributes:
        timed: Every timer message and recall, in their order.
        checkpoints: Every flush of the timer that succeeded.
        clocks: (operations of the disk, ms) at the beginning of every turn.
        kills: When the process was killed.
    """

    def __init__(self, disk: SimDisk, config: BrokerConfig, **more: Any) -> None:
        self.timed: list[Timed] = []
        self.checkpoints: list[Checkpoint] = []
        self.clocks: list[tuple[int, int]] = []
        self.kills: list[int] = []
        super().__init__(disk, config, **more)

    def open(self) -> None:
        self.opened += 1
        self.broker = Broker(self.config, self.disk)
        self.broker.store.clock._seconds = None  # there is no loop whose clock it could ask
        self.store = self.broker.store
        self.timers = self.broker.timers.timers = TimerStore(self.disk, self.config.store, self.store, SLOTS)
        self.broker.recover()
        self.delays = self.broker.delays.schedule._offsets
        clock, metrics = TimerClock(lambda: wall_ms() / 1000), self.broker.timers.metrics
        parts = TimerParts(self.config.store, self.store, self.timers, OpenSlots(), clock, metrics, self._commit)
        self.service = TimerService(parts, self._never)

    async def _never(self) -> None:
        raise AssertionError("this driver flushes by itself")

    def _commit(self) -> None:
        self.store.commit_pending()
        if self.sync:
            self.flush_log()
        self.reput()

    def _note_written(self) -> None:
        super()._note_written()
        for each in self.timed:
            if each.written is None and each.end <= self.store.written_position:
                each.written = self.now

    def _flush(self, flush: Any) -> None:
        super()._flush(flush)
        for each in self.timed:
            if each.written is not None and each.durable is None and each.end <= self.store.flushed_position:
                each.durable = self.now

    # --- what happens

    def send(self, delay: int) -> None:
        """Put a message that is due in so many milliseconds."""
        id_ = f"{self.name}{len(self.timed)}"
        self._put(id_, {PropertyName.TIMER_DELIVER_MS: str(wall_ms() + delay)}, wall_ms() + delay)

    def recall(self, each: Timed) -> None:
        """Put a recall, as the processor does."""
        properties = {
            PropertyName.TIMER_DELIVER_MS: str((each.due - 1) // 1000 * 1000 + 1),
            PropertyName.TIMER_DEL_UNIQUE_KEY: delete_key(TOPIC, each.id),
        }
        self._put(each.id, properties, each.due, each.id)

    def _put(self, id_: str, properties: dict[str, str], due: int, recalls: str | None = None) -> None:
        message = IncomingMessage(TOPIC, 0, b"%b:body" % id_.encode(), born_host=HOST, store_host=HOST)
        put = Put(message, {PropertyName.UNIQUE_KEY: id_, **properties})
        stages = self.broker.pipeline._stages
        for _, stage in stages[1:]:
            stage.take([put])
        assert put.refusal is None
        assert put.result is not None
        assert put.result.status is PutMessageStatus.PUT_OK
        self.timed.append(Timed(id_, due, put.result.end, recalls))

    def pump(self) -> None:
        """Do all that the timer can do now."""
        enqueue, dequeue = self.service.enqueue, self.service.dequeue
        while (enqueue.behind and enqueue.take(8)) or dequeue.open_due() or dequeue.deliver_due(3):
            pass
        dequeue.close_passed()

    def flush_timer(self) -> None:
        """What the service does by the clock."""
        what = self.timers.prepare(wall_ms())
        try:
            self.store.flushing.commit_log.flush()
            self.timers.flush(what)
        except StoreError:
            self.timers.give_back(what)
        else:
            self._flush(lambda: None)
            self.checkpoints.append(Checkpoint(self.now, what.checkpoint.last_read_time_ms))

    def reopen(self, *, kill: bool = False) -> None:
        if kill:
            self.kills.append(self.now)
        super().reopen(kill=kill)

    def close(self) -> None:
        self.service.dequeue.leave()
        self.service._mark_newest()
        self.flush_timer()
        super().close()

    def delivered(self) -> list[Any]:
        """The messages that were delivered, in their order."""
        found: list[Any] = []
        while more := decode_messages(self.store.reads.get(TOPIC, 0, len(found), 32).records):
            found += more
        return found


@attrs.frozen
class TimedRecording:
    """What was done."""

    recording: Recording
    driver: TimedDriver

    @property
    def length(self) -> int:
        return self.recording.length


def timed(driver: Driver, rng: Random, turn: int) -> None:
    """Messages for soon and for later, recalls, deliveries, flushes, and now and then a stop or a kill."""
    assert isinstance(driver, TimedDriver)
    driver.clocks.append((driver.now, wall_ms()))
    for _ in range(rng.randint(0, 3)):
        driver.send(rng.choice((50, 900, 1500, 2500, 4000, 8000, 14_000, 16_000)) + rng.randrange(100))
    recalled = {each.recalls for each in driver.timed}
    waiting = [each for each in driver.timed if each.due > wall_ms() + 1200 and each.id not in recalled]
    if waiting and rng.random() < 0.3:
        driver.recall(rng.choice(waiting))
    driver.turn()
    driver.pump()
    if turn % 3 == 2:
        driver.flush_timer()
    if turn % 7 == 6:
        driver.flush()
    if turn % 11 == 10:
        driver.reopen(kill=bool(turn % 2))


@lru_cache(maxsize=2)
def recorded(mode: str) -> TimedRecording:
    workload = Workload(f"timed-{mode}", timed, (("flush_disk_type", mode), *SETTINGS), 0)
    disk = SimDisk()
    disk.record()
    with wall_clock(lambda: CLOCK):
        driver = TimedDriver(disk, workload.config(), rng=Random(workload.name))
    play(workload, driver, LENGTH)
    return TimedRecording(Recording(workload, disk, driver.sent, driver.saves, driver.visible), driver)


def near_timer(recording: TimedRecording) -> list[int]:
    """The moments right after something was done to a file of the timer."""
    names, found = [""], []
    for index, (operation, number, *arguments) in enumerate(recording.recording.disk.journal or ()):
        name = names[number]
        if operation in ("link", "folder"):  # what is new has the next number
            name = f"{name}/{arguments[0]}".removeprefix("/")
            names.append(name)
        if "timer" in name:
            found.append(index + 1)
    return found


# --- after the crash -------------------------------------------------------------------------------------


def problems_after(recording: TimedRecording, disk: SimDisk, at: int, *, kill: bool) -> list[str]:
    """Open what a crash has left, let time go on, stop and open it again, and look at what was delivered.

    Args:
        recording: What was done.
        disk: What is left of it.
        at: When, in operations of the disk.
        kill: Whether only the process ended, so that the disk has everything that was written.
    """
    before = recording.driver
    clock = max((ms for done, ms in before.clocks if done <= at), default=CLOCK) + DOWN_MS[at % len(DOWN_MS)]
    began = clock
    with wall_clock(lambda: clock):
        after = TimedDriver(disk, recording.recording.workload.config(), name="after")
        for number in range(60):
            after.pump()
            clock += STEP_MS
            if number == 20:
                after.reopen()
        after.flush_timer()
        delivered = after.delivered()
        problems = list(_judged(before, delivered, at, began, kill=kill))
        after.reopen(kill=True)
        after.pump()
        if len(after.delivered()) != len(delivered):
            problems.append("messages came again though nothing had been lost")
        if after.timers.wheel.waiting > 0:
            problems.append(f"{after.timers.wheel.waiting} messages wait though all are due")
        after.store.abandon()
    return problems


def _judged(before: TimedDriver, delivered: list[Any], at: int, began: int, *, kill: bool) -> Iterator[str]:
    """What is wrong with what was delivered, up to the crash and since the start after it at `began`."""
    early, late = Counter[str](), Counter[str]()
    rolled = set()
    for message in delivered:
        properties, key = message.wire_properties, message.wire_properties[PropertyName.UNIQUE_KEY]
        taken_at = int(properties[PropertyName.TIMER_DEQUEUE_MS])
        (late if taken_at >= began else early)[key] += 1
        if PropertyName.TIMER_ROLL_TIMES in properties:
            rolled.add(key)
        if taken_at < int(properties[PropertyName.TIMER_DELIVER_MS]):
            yield f"{key} came before its time"

    def holds(each: Timed) -> bool:
        said = each.written if kill else each.durable
        return said is not None and said <= at

    over = max((each.read_ms for each in before.checkpoints if each.done <= at), default=0)
    kills = sum(done <= at for done in before.kills)
    recalled = {each.recalls for each in before.timed if each.recalls and holds(each)}
    perhaps = {each.recalls for each in before.timed if each.recalls}
    for each in before.timed:
        if each.recalls is not None:
            continue
        count = early[each.id] + late[each.id]
        if each.id in recalled and count:
            yield f"{each.id} was recalled, and delivered"
        elif holds(each) and not count and each.id not in perhaps:
            yield f"{each.id} was lost"
        if each.id in rolled:
            continue  # what went through the timer again before a kill may have done so twice
        if early[each.id] > 1 + kills or late[each.id] > 1:
            yield f"{each.id} came {early[each.id]} and {late[each.id]} times with {kills} kills"
        if early[each.id] and late[each.id] and (each.due - 1) // 1000 * 1000 < over:
            yield f"{each.id} came again though the timer had noted that its slot is over"
