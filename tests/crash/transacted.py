"""Transactions under way while the power fails: half messages, ends that are written at once or later, and checks.

Whatever is left of the disk, a message is delivered only if its producer wanted that, what was promised to be delivered
is, and a transaction that has not ended is asked about, once at a time, or was set aside after enough questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache, partial
from random import Random
from typing import Any, NamedTuple, cast

import attrs
import trio

from rocketpy.errors import BrokerError
from rocketpy.message import PropertyName
from rocketpy.seams import wall_clock
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.transaction import EndTransactionRequestHeader
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.names import TRANSACTION_DISCARD_TOPIC, TRANSACTION_HALF_TOPIC
from rocketpy.wire.sysflag import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from rocketpy_broker_sim.broker.processors.end_transaction import end_transaction
from rocketpy_broker_sim.broker.putting.put_pipeline import Put, Sent, StageOrder
from rocketpy_broker_sim.broker.transactions.checking import Asked, CheckService
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.serving.slices import in_slices
from rocketpy_broker_sim.store.put_result import IncomingMessage, PutMessageStatus
from tests.crash.driver import CLOCK, HOST, Driver, broker_config
from tests.crash.judge import LATER, disagreements
from tests.crash.sim_disk import SimDisk

__all__ = ["Recorded", "Transaction", "TransactionDriver", "near_ends", "problems_after", "recorded"]

LENGTH = 1200
TOPICS = ("Orders", "Bills")
GROUP = "producers"
A_TURN = 700
SETTINGS: dict[str, Any] = {
    "transaction_time_out": 2 * A_TURN,
    "transaction_check_max": 3,
    "mapped_file_size_commit_log": 16 * 1024,
    "max_hash_slot_num": 20,
    "max_index_num": 20,
}


@attrs.define(eq=False)
class Promise:
    """What was put into the log when, up to where, and when it was known to have been written, and flushed."""

    began: int
    end: int
    written: int | None = None
    durable: int | None = None

    def stands(self, at: int, *, kill: bool) -> bool:
        """Whether it had been given when the power went."""
        said = self.written if kill else self.durable
        return said is not None and said <= at


@attrs.define(eq=False)
class Transaction:
    """What was done for one.

    Attributes:
        half: Its half message.
        ends: What was put for each of its ends, and whether that it has ended was written at once.
        verdict: How it ends; None when nobody has said.
        places: Where it was said to stand: queue offset and position, the last one last.
    """

    id: str
    half: Promise
    verdict: int | None = None
    ends: list[tuple[Promise, bool]] = attrs.field(factory=list)
    places: list[tuple[int, int]] = attrs.field(factory=list)

    def is_promised(self, at: int, *, kill: bool) -> bool:
        """Whether its producer could know that it had ended."""
        return any(end.stands(at, kill=kill) for end, _ in self.ends)

    def is_over(self, at: int, *, kill: bool) -> bool:
        """Whether it must not be checked."""
        return any(at_once and end.stands(at, kill=kill) for end, at_once in self.ends)

    def begun(self, at: int) -> int:
        """How many ends there were."""
        return sum(end.began <= at for end, _ in self.ends)


class TransactionDriver(Driver):
    """A broker without its services, whose half messages are sent, ended and checked.

    Attributes:
        transactions: All of them, by the id of their message.
        asked: Those that producers were asked about and have not ended since.
    """

    def __init__(self, disk: SimDisk, config: BrokerConfig, *, name: str = "m", rng: Random | None = None) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.asked: list[str] = []
        self._promises: list[Promise] = []
        super().__init__(disk, config, name=name, rng=rng)

    def open(self) -> None:
        super().open()
        self.asked.clear()
        self.checks = cast("CheckService", self.broker.transactions._checks)
        self.checks._ask = self._ask
        self.checks._flush = self._flush_checks

    async def find_copies(self) -> None:
        """What the service does first."""
        await in_slices(self.checks.find_copies())

    # --- what producers do

    def half(self, topic: str, queue_id: int, size: int, **properties: str) -> None:
        id_ = f"{self.name}t{len(self.transactions)}"
        all_properties = {
            PropertyName.TRANSACTION_PREPARED: "true",
            PropertyName.PRODUCER_GROUP: GROUP,
            PropertyName.UNIQUE_KEY: id_,
            **properties,
        }
        body = (id_.encode() + b":").ljust(size, b"t")
        message = IncomingMessage(topic, queue_id, body, "", born_host=HOST, store_host=HOST)
        put = Put(message, all_properties, sent=cast("Sent", object()))
        began = self.now
        self.broker.pipeline.take([put], behind=StageOrder.CHECKS)
        assert put.result is not None
        assert put.result.status is PutMessageStatus.PUT_OK
        transaction = Transaction(id_, Promise(began, put.result.end))
        transaction.places.append((put.result.queue_offset, put.result.physical_offset))
        self._promises.append(transaction.half)
        self.transactions[id_] = transaction

    def end(self, transaction: Transaction, verdict: int, *, at_once: bool, place: int = -1) -> None:
        """End a transaction; an error is returned."""
        transaction.verdict = verdict
        offset, position = transaction.places[place]
        header = EndTransactionRequestHeader(
            producer_group=GROUP,
            tran_state_table_offset=offset,
            commit_log_offset=position,
            commit_or_rollback=verdict,
            msg_id=transaction.id,
            transaction_id=transaction.id,
        )
        make = RemotingCommand if at_once else RemotingCommand.oneway
        turn, promise = self.broker.storing.turn, Promise(self.now, -1)
        turn._position = -1
        try:
            end_transaction(
                self.broker._views.transactions,
                cast("Any", None),
                make(RequestCode.END_TRANSACTION, header.to_ext()),
            )
        except BrokerError:
            return
        promise.end = turn._position
        if promise.end >= 0:
            transaction.ends.append((promise, at_once))
            self._promises.append(promise)
        elif verdict == TRANSACTION_ROLLBACK:
            transaction.ends.append((promise, False))  # nothing is written of it yet

    def unended(self) -> list[Transaction]:
        return [each for each in self.transactions.values() if not each.ends]

    # --- what services do

    def write(self) -> None:
        """End the turn."""
        self.broker.storing.turn.commit()
        self._note_promises()
        if self.sync:
            self.flush_log()
        self.turn()

    def write_ends(self) -> None:
        self.broker.transactions._ops.write_all()
        self.write()

    async def check(self) -> None:
        await self.checks.check()
        self.write()

    def _ask(self, asked: Asked) -> None:
        id_ = asked.record.properties[PropertyName.UNIQUE_KEY]
        self.asked.append(id_)
        if id_ in self.transactions:
            self.transactions[id_].places.append((asked.copy.queue_offset, asked.copy.physical_offset))

    async def _flush_checks(self) -> None:
        self.flush_log()

    def _flush(self, flush: Any) -> None:
        super()._flush(flush)
        self._note_promises()

    def close(self) -> None:
        self.write_ends()
        super().close()
        self._note_promises()

    def _note_promises(self) -> None:
        for promise in self._promises:
            if 0 <= promise.end <= self.store.written_position and promise.written is None:
                promise.written = self.now
            if 0 <= promise.end <= self.store.flushed_position and promise.durable is None:
                promise.durable = self.now
        self._promises = [each for each in self._promises if each.durable is None and each.end >= 0]


@attrs.frozen
class Recorded:
    """What was done while nothing failed."""

    disk: SimDisk
    config: BrokerConfig
    transactions: dict[str, Transaction]

    @property
    def length(self) -> int:
        return len(self.disk.journal or ())


async def _step(driver: TransactionDriver, turn: int) -> None:
    """Transactions begin, some end at once, some are asked about, some are left alone; tables are written."""
    rng = driver.rng
    for _ in range(rng.randint(1, 3)):
        more = {PropertyName.CHECK_IMMUNITY_TIME_IN_SECONDS: "4"} if rng.random() < 0.2 else {}
        driver.half(rng.choice(TOPICS), rng.randrange(2), rng.randint(20, 200), **more)
    driver.put("Orders", 0, 30)
    driver.write()
    for each in rng.sample(waiting := driver.unended(), min(2, len(waiting))):
        if rng.random() < 0.7:
            driver.end(each, _any_verdict(rng), at_once=rng.random() < 0.5)
    driver.write()
    if turn % 3 == 2:
        await driver.check()
    for id_ in driver.asked[:3]:
        each = driver.transactions[id_]
        if rng.random() < 0.7:
            verdict = each.verdict or _any_verdict(rng)
            driver.end(each, verdict, at_once=rng.random() < 0.5, place=rng.choice((-1, -1, 0)))
    del driver.asked[:3]
    driver.write()
    if turn % 4 == 3:
        driver.write_ends()
    if turn % 4 == 1:
        driver.save()
    if turn % 5 == 4:
        driver.flush()
    elif turn % 5 == 2 and not driver.sync:
        driver.flush_log()
    if turn % 9 == 8:
        driver.reopen(kill=bool(turn % 2))
        await driver.find_copies()


def _any_verdict(rng: Random) -> int:
    return TRANSACTION_COMMIT if rng.random() < 0.6 else TRANSACTION_ROLLBACK


@lru_cache(maxsize=2)
def recorded(mode: str) -> Recorded:
    """What is done with one way to flush; made once a process."""
    config = broker_config(flush_disk_type=mode, **SETTINGS)
    disk = SimDisk()
    disk.record()

    async def play() -> dict[str, Transaction]:
        with wall_clock(lambda: CLOCK):
            driver = TransactionDriver(disk, config, rng=Random(f"transactions {mode}"))
            for topic in TOPICS:
                driver.create_topic(topic)
            driver.save()
        for turn in range(LENGTH):
            with wall_clock(lambda clock=CLOCK + turn * A_TURN: clock):
                await _step(driver, turn)
            if driver.now >= LENGTH:
                break
        return driver.transactions

    return Recorded(disk, config, trio.run(play))


# --- looking ---------------------------------------------------------------------------------------------


class _Look:
    """Where messages of transactions are now.

    Attributes:
        delivered: How often each is in a topic of consumers.
        open: Those that nobody has ended, as often as there are half messages that stand for them.
        aside: Those that were set aside.
        problems: What does not fit together in the store.
    """

    def __init__(self, driver: TransactionDriver) -> None:
        store, window = driver.store, driver.broker.transactions.ledger.window
        self.delivered: Counter[str] = Counter()
        self.open: Counter[str] = Counter()
        self.aside: set[str] = set()
        seen: list[_Read] = []
        for topic in store.reads.topics():
            for queue_id in store.reads.queue_ids(topic):
                for each in _read(driver, topic, queue_id):
                    seen.append(each)
                    if topic in TOPICS:
                        self.delivered[each.id] += 1
                    elif topic == TRANSACTION_DISCARD_TOPIC:
                        self.aside.add(each.id)
                    elif topic == TRANSACTION_HALF_TOPIC and not window.state(each.offset):
                        self.open[each.id] += 1
        self.problems = disagreements(driver, seen, [])


class _Read(NamedTuple):
    """What is looked at of a message that was read from a queue."""

    id: str
    topic: str
    offset: int
    position: int
    keys: str | None


def _read(driver: Driver, topic: str, queue_id: int) -> Iterator[_Read]:
    store = driver.store
    offset = store.reads.min_offset(topic, queue_id)
    while offset < store.reads.max_offset(topic, queue_id):
        result = store.reads.get(topic, queue_id, offset, 32)
        for message in decode_messages(result.records):
            keys = message.wire_properties.get(PropertyName.KEYS)
            id_ = message.body.partition(b":")[0].decode()
            yield _Read(id_, topic, message.queue_offset, message.commit_log_offset, keys)
        assert result.next_begin_offset > offset
        offset = result.next_begin_offset


def _broken(each: Transaction, look: _Look, at: int, *, kill: bool) -> list[str]:
    """The promises to a producer that were broken when the power went."""
    id_, begun = each.id, each.begun(at)
    wanted = each.verdict if begun else None
    there, waits = look.delivered[id_], look.open[id_]
    problems = []
    if there and wanted != TRANSACTION_COMMIT:
        problems.append("delivered, though its producer did not want that")
    if there > begun:
        problems.append(f"delivered {there} times, and ended {begun} times")
    if waits > 1:
        problems.append(f"{waits} half messages stand for it")
    if waits and each.is_over(at, kill=kill):
        problems.append("asked about, though it was said that it has ended")
    if wanted == TRANSACTION_COMMIT and each.is_promised(at, kill=kill) and not there:
        problems.append("not delivered, though that was promised")
    if each.half.stands(at, kill=kill) and not (waits or there or id_ in look.aside or wanted == TRANSACTION_ROLLBACK):
        problems.append("gone without a trace")
    return [f"{id_}: {problem}" for problem in problems]


async def _go_on(driver: TransactionDriver, known: dict[str, Transaction], at: int) -> None:
    """Check until no transaction is left; producers that do not know commit. New transactions come and go."""
    driver.transactions = {id_: attrs.evolve(each, ends=list(each.ends)) for id_, each in known.items()}
    driver.half("Orders", 0, 40)
    driver.write()
    for each in list(driver.transactions.values())[-1:]:
        driver.end(each, TRANSACTION_COMMIT, at_once=True)
    driver.write()
    for _ in range(12):
        await driver.check()
        asked, driver.asked = driver.asked, []
        if not asked:
            break
        for id_ in dict.fromkeys(asked):
            each = driver.transactions[id_]
            said = each.verdict if each.begun(at) else None
            driver.end(each, said or TRANSACTION_COMMIT, at_once=True)
        driver.write()
    driver.flush_log()


def problems_after(recording: Recorded, disk: SimDisk, at: int, *, kill: bool = False) -> list[str]:
    """Open what is left, look, ask until everything has ended, look, kill the process, look."""
    return trio.run(partial(_problems_after, recording, disk, at, kill=kill))


async def _problems_after(recording: Recorded, disk: SimDisk, at: int, *, kill: bool) -> list[str]:
    known = {id_: each for id_, each in recording.transactions.items() if each.half.began <= at}
    with wall_clock(lambda: LATER):
        driver = TransactionDriver(disk, recording.config, name="after")
        await driver.find_copies()
        first = _Look(driver)
        problems = first.problems + [text for each in known.values() for text in _broken(each, first, at, kill=kill)]
    with wall_clock(lambda: LATER + 10_000):
        await _go_on(driver, known, at)
        second = _Look(driver)
    with wall_clock(lambda: LATER + 20_000):
        driver.reopen(kill=True)
        await driver.find_copies()
        third = _Look(driver)
        driver.store.abandon()
    for look, when in ((second, "went on"), (third, "was killed again")):
        problems += look.problems
        still = look.open.keys() - look.aside  # a kill may bring those back to the last check
        problems += [f"{id_}: still asked about after the broker {when}" for id_ in sorted(still)]
        problems += [
            f"{id_}: delivered {look.delivered[id_]} times after the broker {when}, {wanted} expected"
            for id_, wanted in _expected(first, second, known, at).items()
            if look.delivered[id_] != wanted
        ]
    return problems


def _expected(first: _Look, second: _Look, known: dict[str, Transaction], at: int) -> dict[str, int]:
    """How often each is to be delivered when all have ended: what was open is so once more, unless set aside."""
    expected = {}
    for id_, each in known.items():
        is_rolled_back = each.begun(at) > 0 and each.verdict == TRANSACTION_ROLLBACK
        is_new = first.open[id_] and not is_rolled_back and id_ not in second.aside - first.aside
        expected[id_] = first.delivered[id_] + bool(is_new)
    return expected


def near_ends(recording: Recorded) -> list[int]:
    """The moments around the ends of transactions."""
    found = {end.began + step for each in recording.transactions.values() for end, _ in each.ends for step in range(5)}
    return sorted(at for at in found if at <= recording.length)
