"""A store whose topics are filtered by SQL92 and again are not, and what readers of it must get after a crash.

Units that lead to the extension stand beside ordinary ones. After the crash, and once more after the store has gone on,
every queue is read by tag and by expression, with the bit maps that were left; and each unit that is left has to lead
to the entry that was made for its message.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from random import Random

from rocketpy.seams import wall_clock
from rocketpy.wire.bodies.subscription import build
from rocketpy.wire.java_hash import tags_code
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.filters.filtering import filter_by
from rocketpy_broker_sim.filter.expression import Compiler
from rocketpy_broker_sim.store.filtering import MessageFilter
from rocketpy_broker_sim.store.queue.consume_queue import ConsumeQueue
from rocketpy_broker_sim.store.queue.consume_queue_ext import FOLDER, is_address
from tests.crash.driver import CLOCK, Driver
from tests.crash.judge import LATER
from tests.crash.sim_disk import SimDisk
from tests.crash.test_cleaning import clean
from tests.crash.workloads import Recording, Workload, play

__all__ = ["codes", "damaged_extension", "near_extension", "problems_after", "recorded"]

LENGTH = 400
COMPILER = Compiler()
WANTED = {"TAGS = 'T1'": {"T1"}, "TAGS = 'T2'": {"T2"}, "TAGS IN ('T0', 'T2')": {"T0", "T2"}}
"""The tags that each expression wants."""
GROUPS = ("g", "h")
SETTINGS = (
    ("enable_consume_queue_ext", True),
    ("enable_calc_filter_bit_map", True),
    ("enable_property_filter", True),
    ("mapped_file_size_consume_queue_ext", 1024),
    ("filter_data_clean_time_span", 0),
    ("max_hash_slot_num", 20),
    ("max_index_num", 20),
)
TOPICS = ("Orders", "Bills")


def subscribe(driver: Driver, topic: str, group: str, rng: Random) -> None:
    """A group filters a topic from now on, by one expression or another; a newer version each time."""
    expression = rng.choice(tuple(WANTED))
    table = driver.broker.filters.table
    known = table.get(topic, group)
    wanted = build(topic, expression, expression_type="SQL92")
    wanted.sub_version = 1 if known is None else known.client_version + 1
    table.register(group, wanted, COMPILER.compile(expression))


def filtered(driver: Driver, rng: Random, turn: int) -> None:
    """Groups come and go, now and then nobody filters; messages come all the time."""
    if turn == 0:
        for topic in TOPICS:
            driver.create_topic(topic)
    if turn % 5 == 0:
        for topic, group in zip(TOPICS, GROUPS, strict=True):
            if rng.random() < 0.5:
                driver.broker.filters.table.unregister(group)
                run_steps(driver.broker.filters.table.clean_steps())
            else:
                subscribe(driver, topic, group, rng)
        if rng.random() < 0.4:
            driver.save()
    for _ in range(3):
        driver.put(rng.choice(TOPICS), rng.randrange(2), rng.randint(20, 400))
    driver.turn()
    if turn % 4 == 3:
        driver.flush()
    if turn % 13 == 12:
        clean(driver)
    if turn % 9 == 8:
        driver.reopen(kill=bool(turn % 2))


@lru_cache(maxsize=2)
def recorded(mode: str) -> Recording:
    workload = Workload(f"filtered-{mode}", filtered, (("flush_disk_type", mode), *SETTINGS), 0)
    disk = SimDisk()
    disk.record()
    with wall_clock(lambda: CLOCK):
        driver = Driver(disk, workload.config(), rng=Random(workload.name))
    play(workload, driver, LENGTH)
    return Recording(workload, disk, driver.sent, driver.saves, driver.visible)


def read(driver: Driver, topic: str, queue_id: int, wanted: MessageFilter | None = None) -> dict[bytes, str]:
    """Tags by body of what a reader gets of a queue."""
    store, found = driver.store, {}
    offset = store.reads.min_offset(topic, queue_id)
    while offset < store.reads.max_offset(topic, queue_id):
        result = store.reads.get(topic, queue_id, offset, 32, wanted=wanted)
        found.update({each.body: each.wire_properties["TAGS"] for each in decode_messages(result.records)})
        assert result.next_begin_offset > offset
        offset = result.next_begin_offset
    return found


def wrong(driver: Driver) -> list[str]:
    """What readers by tag or by expression miss, or get though it is known not to be theirs."""
    problems = []
    for topic in driver.store.reads.topics():
        for queue_id in driver.store.reads.queue_ids(topic):
            every = read(driver, topic, queue_id)
            for tag in ("T0", "T1", "T2"):
                found = read(driver, topic, queue_id, MessageFilter(frozenset({tags_code(tag)})))
                missing = {body for body, of in every.items() if of == tag} - found.keys()
                problems += [f"{topic} {queue_id}: {len(missing)} of {tag} missing"] if missing else []
            for group in GROUPS:
                data = driver.broker.filters.table.get(topic, group)
                if data is not None:
                    found = read(driver, topic, queue_id, filter_by(data.compiled, data.bit_test()))
                    mine = {body for body, of in every.items() if of in WANTED[data.compiled.text]}
                    problems += [f"{topic} {queue_id}: {group} got something else"] if found.keys() != mine else []
    return problems


def led_astray(driver: Driver, *, lost_is_wrong: bool) -> list[str]:
    """Units that lead to the entry of another message, or to none though what was flushed is there."""
    problems = []
    for queue in driver.store._queues:
        for offset, unit in enumerate(_units(queue), queue.min_offset):
            if not is_address(unit[2]):
                continue
            where = f"{queue.topic} {queue.queue_id} at {offset}"
            entry = None if queue.ext is None else queue.ext.get(unit[2])
            if entry is None:
                problems += [f"{where}: the entry is lost"] if lost_is_wrong else []
            elif (entry.tags_code, entry.store_timestamp) != _of_record(driver, *unit[:2]):
                problems.append(f"{where}: the entry is that of another message")
    return problems


def _units(queue: ConsumeQueue) -> Iterator[tuple[int, int, int]]:
    """Those of messages that are there; a read ends with its file."""
    offset = queue.min_offset
    while found := list(queue.units(offset, queue.max_offset - offset)):
        yield from found
        offset += len(found)


def _of_record(driver: Driver, position: int, size: int) -> tuple[int, int]:
    """Tags code and store time of a message, as the log has them."""
    (message,) = decode_messages(driver.store._log.read_ranges([(position, position + size)]))
    return tags_code(message.wire_properties["TAGS"]), driver.store._log.store_timestamp(position, size)


def problems_after(recording: Recording, disk: SimDisk, *, flushes_hold: bool = True) -> list[str]:
    """Open what a crash has left, look, go on with filters, look, kill the process, look.

    Args:
        recording: What was done.
        disk: What is left of it.
        flushes_hold: Whether what was flushed is there, so that no unit may have lost its entry.
    """

    def look() -> list[str]:
        return wrong(driver) + led_astray(driver, lost_is_wrong=flushes_hold)

    with wall_clock(lambda: LATER):
        driver = Driver(disk, recording.workload.config(), name="after")
        problems = look()
    with wall_clock(lambda: LATER + 1000):
        for topic in TOPICS:
            for group in GROUPS:
                subscribe(driver, topic, group, driver.rng)
    with wall_clock(lambda: LATER + 2000):
        for number in range(24):
            driver.put(TOPICS[number % 2], number // 2 % 2)
        driver.turn()
        problems += look()
        driver.reopen(kill=True)
        problems += look()
        driver.reopen()
        problems += look()
        driver.store.abandon()
    return problems


def near_extension(recording: Recording) -> list[int]:
    """The moments right after something was done to a file or folder of the extension."""
    names, found = [""], []
    for index, (operation, number, *arguments) in enumerate(recording.disk.journal or ()):
        name = names[number]
        if operation in ("link", "folder"):  # what is new has the next number
            name = f"{name}/{arguments[0]}".removeprefix("/")
            names.append(name)
        if name.startswith(FOLDER):
            found.append(index + 1)
    return found


def codes(driver: Driver) -> list[bool]:
    """For each unit whether it leads to the extension."""
    return [
        is_address(unit[2])
        for queue in driver.store._queues
        for file in queue.row.files
        for unit in queue.units(file.start // 20, 10**6)
    ]


def damaged_extension(disk: SimDisk, kind: str, rng: Random) -> bool:
    """Do to all files of the extension what a disk may that does not keep what it said; whether that changed any.

    They are "lost", end in "zeros", or go on with what stood at their beginning ("longer").
    """
    paths = [path for path in disk.files() if path.startswith(f"{FOLDER}/")]
    return sum(_damage(disk, path, kind, rng) for path in paths) > 0


def _damage(disk: SimDisk, path: str, kind: str, rng: Random) -> bool:
    """Of one file."""
    content = disk.files()[path]
    end = len(content.rstrip(b"\0"))
    changed = {
        "zeros": lambda: content[: rng.randint(0, end)].ljust(len(content), b"\0"),
        "longer": lambda: (content[:end] + content[: rng.randint(0, 300)])[: len(content)].ljust(len(content), b"\0"),
        "lost": lambda: None,
    }[kind]()
    if changed is None:
        disk.unlink(path)
        return True
    disk.open(path).pwrite(changed, 0)
    return changed != content
