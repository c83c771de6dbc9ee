"""Opens the store that a power loss left, looks at everything in it, goes on with it, and has the checker judge.

What a disk must hold follows from what had been promised when the power went: everything that was durable, or, when
only the process ended, everything that was written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import attrs

from rocketpy.errors import MessageDecodeError, StoreCorruptError, StoreError
from rocketpy.message import MessageExt, PropertyName
from rocketpy.seams import wall_clock
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.names import SCHEDULE_TOPIC
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.store.log.scan import LogScan
from tests.checker import (
    History,
    Observation,
    Outcome,
    Seen,
    Send,
    Violation,
    check,
    check_same_files,
    check_stays,
    check_table,
)
from tests.crash.driver import CLOCK, Driver, Save, Sent, content_of
from tests.crash.sim_disk import SimDisk
from tests.crash.workloads import Recording

__all__ = ["Moment", "Stored", "Verdict", "disagreements", "judge", "observe", "seen_of"]

LATER = CLOCK + 3_600_000
_BROKERS_OWN = "__CRC32#"
_NOT_COMPARED = ("abort", "lock")


@attrs.frozen
class Moment:
    """When the power went, and what was promised until then.

    Attributes:
        at: In operations of the disk; what came later never happened.
        kill: Whether only the process ended, so that the disk has everything that was written.
        tables: Whether the tables must be as one of their writes left them.
        earlier: Sends of a life before, with what is known of them.
        seen: What was seen in it.
    """

    sent: list[Sent]
    saves: list[Save]
    visible: list[tuple[int, str, int, int]]
    config: BrokerConfig
    at: int
    kill: bool = False
    tables: bool = True
    earlier: list[Send] = attrs.field(factory=list)
    seen: list[Observation] = attrs.field(factory=list)

    @classmethod
    def of(cls, recording: Recording, at: int, *, kill: bool = False) -> Moment:
        return cls(recording.sent, recording.saves, recording.visible, recording.workload.config(), at, kill)

    def sends(self) -> list[Send]:
        return self.earlier + [self._send(each) for each in self.begun()]

    def begun(self) -> list[Sent]:
        """What had been put by then."""
        return [each for each in self.sent if each.began <= self.at]

    def _send(self, each: Sent) -> Send:
        said = each.written if self.kill else each.durable
        outcome = Outcome.OK if said is not None and said <= self.at else Outcome.INFO
        if each.failed is not None and each.failed <= self.at:
            outcome = Outcome.FAIL
        if each.copy_of is not None:
            outcome = Outcome.INFO
        return Send(
            id=each.id,
            topic=each.topic,
            body=each.body,
            outcome=outcome,
            tags=each.properties.get(PropertyName.TAGS),
            keys=each.properties.get(PropertyName.KEYS),
            properties=each.properties,
            place=(each.queue_id, each.offset) if outcome is Outcome.OK else None,
            position=each.position if outcome is Outcome.OK else None,
            optional=each.removed is not None and each.removed <= self.at,
            repeatable=each.copy_of is not None,
        )

    def acknowledged(self) -> int:
        return sum(send.outcome is Outcome.OK for send in self.sends())


@attrs.define
class Verdict:
    """What became of a disk.

    Attributes:
        violations: The promises that were broken.
        refused: Why the store was not opened, or a read refused; "" when it was.
        lost: Sends whose outcome was unknown and that are gone.
    """

    violations: list[Violation] = attrs.field(factory=list)
    refused: str = ""
    lost: int = 0


def judge(moment: Moment, disk: SimDisk, *, clock: int = LATER, go_on: bool = True) -> Verdict:
    """Open the disk, look, open it again, go on, look again."""
    verdict = Verdict()
    with wall_clock(lambda: clock):
        try:
            _judge(moment, disk, verdict, go_on)
        except StoreCorruptError as exc:
            verdict.refused = f"{exc}"
        except (StoreError, MessageDecodeError) as exc:
            verdict.violations.append(Violation("open", f"{type(exc).__name__}: {exc}"))
    return verdict


def _judge(moment: Moment, disk: SimDisk, verdict: Verdict, go_on: bool) -> None:
    sends = moment.sends()
    history = History(sends, durable=moment.config.store.flush_disk_type == "SYNC_FLUSH" or moment.kill)
    history.observations += moment.seen
    first = Driver(disk, moment.config, name="after")
    visible = _visible_before(moment, sends)
    if visible is not None and history.durable:
        history.observations.append(visible)
    seen = observe(first, "after the crash", len(sends), sends)
    history.observations.append(seen)
    verdict.lost = len(sends) - len({each.id for each in seen.seen})
    verdict.violations += _tables(moment, first) if moment.tables else []
    verdict.violations += _delayed(first, seen, sends)
    files = compared(disk)
    first.store.abandon()
    second = Driver(disk, moment.config, name="after")
    verdict.violations += check_same_files(files, compared(disk))
    if go_on:
        verdict.violations += _go_on(history, second, sends)
    verdict.violations += check(history)


def _go_on(history: History, driver: Driver, sends: list[Send]) -> list[Violation]:
    """Send to every queue, end the process, and look at everything again."""
    queues = [(topic, queue) for topic in driver.store.reads.topics() for queue in driver.store.reads.queue_ids(topic)]
    for topic, queue_id in sorted(queues) or [("Orders", 0)]:
        driver.put(topic, queue_id)
    driver.turn()
    driver.flush_log()
    driver.turn()
    later = Moment(driver.sent, [], [], driver.config, 1 << 60).sends()
    history.sends = [*sends, *later]
    driver.reopen(kill=True)
    again = observe(driver, "after going on", len(history.sends), history.sends)
    driver.store.abandon()
    before = history.observations[-1]
    history.observations.append(again)
    return list(check_stays(before, again))


def compared(disk: SimDisk) -> dict[str, bytes]:
    return {path: data for path, data in disk.files().items() if path not in _NOT_COMPARED}


# --- looking ---------------------------------------------------------------------------------------------


def observe(driver: Driver, name: str, count: int | None, sends: list[Send]) -> Observation:
    """Everything that the store holds, by its own reads."""
    store = driver.store
    seen: list[Seen] = []
    bounds = {}
    for topic in sorted(store.reads.topics()):
        for queue_id in store.reads.queue_ids(topic):
            low, high = store.reads.min_offset(topic, queue_id), store.reads.max_offset(topic, queue_id)
            bounds[topic, "", queue_id] = (low, high)
            seen += _read(store, topic, queue_id, low, high)
    committed = {
        ("group", (key.partition("@")[0], "", queue)): at
        for (key, queue), at in content_of(driver.broker.offsets).items()
    }
    for level in driver.delays.levels():
        committed["delay", (SCHEDULE_TOPIC, "", level - 1)] = driver.delays.get(level)
    return Observation(
        name=name,
        seen=seen,
        sends_before=count,
        bounds=bounds,
        committed=committed,
        problems=disagreements(driver, seen, sends),
    )


def _read(store: Any, topic: str, queue_id: int, low: int, high: int) -> list[Seen]:
    found: list[Seen] = []
    offset = low
    while offset < high:
        result = store.reads.get(topic, queue_id, offset, 32)
        if not result.count or result.next_begin_offset <= offset:
            break
        found += [seen_of(each, topic, queue_id) for each in decode_messages(result.records)]
        offset = result.next_begin_offset
    return found


def seen_of(message: MessageExt, topic: str, queue_id: int) -> Seen:
    """A message that was read from a queue, for the checker."""
    properties = dict(message.wire_properties)
    properties.pop(_BROKERS_OWN, None)
    id_ = message.body.partition(b":")[0].decode("ascii", "replace")
    if PropertyName.REAL_TOPIC in properties and topic != SCHEDULE_TOPIC:
        id_ = f"copy of {id_}"
    if (message.topic, message.queue_id) != (topic, queue_id):
        id_ = f"{id_} of {message.topic} {message.queue_id}"
    return Seen(
        id=id_,
        topic=topic,
        queue_id=queue_id,
        offset=message.queue_offset,
        body=message.body,
        tags=properties.get(PropertyName.TAGS),
        keys=properties.get(PropertyName.KEYS),
        properties=properties,
        position=message.commit_log_offset,
    )


class Stored(Protocol):
    """A message that was read from a queue, as far as log and index know it."""

    @property
    def topic(self) -> str: ...
    @property
    def position(self) -> int | None: ...
    @property
    def keys(self) -> str | None: ...


def disagreements(driver: Driver, seen: Sequence[Stored], sends: list[Send]) -> list[str]:
    """Records of the log that no queue has. What was deleted with its topic may still stand in the log."""
    positions = {each.position for each in seen}
    removed = {send.topic for send in sends if send.optional}
    scan = LogScan(driver.store._log.row, driver.store.reads.log_start, driver.config.store)
    left = [
        f"the record of {record.topic.decode()} {record.queue_id} at {record.position} is in no queue"
        for record in scan
        if record.position not in positions and record.topic.decode() not in removed
    ]
    left += [
        f"the index does not find {each.keys} of {each.topic}, which stands at {each.position}"
        for each in seen
        if each.keys and each.position not in driver.store.index.find(each.topic, each.keys, 64, 0, 1 << 62).positions
    ]
    if scan.position != driver.store.written_position:
        left.append(f"the log is valid up to {scan.position}, and goes on at {driver.store.written_position}")
    return left


# --- promises of the run before --------------------------------------------------------------------------


def _visible_before(moment: Moment, sends: list[Send]) -> Observation | None:
    """What consumers could read when the power went."""
    ends: dict[tuple[str, int], int] = {}
    for when, topic, queue_id, end in moment.visible:
        if when > moment.at:
            break
        if queue_id < 0:
            ends = {queue: known for queue, known in ends.items() if queue[0] != topic}
        else:
            ends[topic, queue_id] = end
    seen = [
        Seen(id=each.id, topic=each.topic, queue_id=each.queue_id, offset=each.offset, body=each.body,
             tags=send.tags, keys=send.keys, properties=send.properties)
        for each, send in zip(moment.begun(), sends[len(moment.earlier) :], strict=True)
        if each.written is not None and each.written <= moment.at and not send.optional
        if 0 <= each.offset < ends.get((each.topic, each.queue_id), 0)
    ]  # fmt: skip
    return Observation(name="before the crash", seen=seen, complete=False) if seen else None


def _tables(moment: Moment, driver: Driver) -> list[Violation]:
    """A table is as one of its writes left it, and not older than the last one that was done."""
    broken: list[Violation] = []
    for table in (driver.broker.topics, driver.broker.offsets, driver.delays):
        saves = [save for save in moment.saves if save.table == table.file_name and save.began <= moment.at]
        done = [index for index, save in enumerate(saves) if save.done is not None and save.done <= moment.at]
        allowed = [save.content for save in saves[done[-1] if done else 0 :]]
        if not done:
            allowed.append(None)
        broken += check_table(table.file_name, content_of(table), allowed, partial(_fits, table.file_name))
    return broken


def _fits(file_name: str, saved: Any, found: Any) -> bool:
    """Whether a table may come from a write: topics may be added, offsets be lowered to what survived."""
    if file_name == "topics.json":
        return saved is None or saved <= found
    return all(at <= (saved or {}).get(key, 0) for key, at in found.items()) and (saved or {}).keys() == found.keys()


def _delayed(driver: Driver, seen: Observation, sends: list[Send]) -> list[Violation]:
    """I16: a delayed message whose level is past it has been delivered."""
    there = {each.id for each in seen.seen}
    offsets: Callable[[int], int] = driver.delays.get
    return [
        Violation("I16", f"{send.id} is behind the offset of its level, and was never delivered")
        for send in sends
        if send.topic == SCHEDULE_TOPIC and send.place is not None and send.place[1] < offsets(send.place[0] + 1)
        if f"copy of {send.id}" not in there
    ]
