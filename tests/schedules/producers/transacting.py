"""Producers of transactions, and the database that knows how each has ended.

They run in a loop with a `MockClock`.
"""

from __future__ import annotations

from typing import Any

import attrs
import trio

from rocketpy import LocalTransactionState, TransactionProducer
from rocketpy.message import Message, MessageExt
from rocketpy.results import SendResult
from rocketpy.wire.names import TRANSACTION_HALF_TOPIC
from tests.checker import Outcome, Transaction
from tests.schedules.producers.members import Member
from tests.schedules.producers.plan import DISTURBED, ENDS, NO_FAULTS, TOPIC
from tests.schedules.producers.world import World, id_of

__all__ = ["Database", "Row", "transaction", "transactor"]

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
SLOW = 9.0
HANGS = (15.0, 40.0)


@attrs.define
class Row:
    """A local transaction.

    Attributes:
        end: How it ends; UNKNOWN as long as it runs, and for one that never ends.
        patience: How often a checker still finds it running.
    """

    record: Transaction
    end: LocalTransactionState = UNKNOWN
    patience: int = 0


@attrs.define
class Database:
    """What all producers of the group know.

    Attributes:
        is_calm: Whether nothing goes wrong in this schedule.
    """

    world: World
    is_calm: bool
    rows: dict[str, Row] = attrs.field(factory=dict)

    def say(self, row: Row, state: LocalTransactionState) -> LocalTransactionState:
        """Answer a broker, and record that."""
        known = {COMMIT: row.record.commits, ROLLBACK: row.record.rollbacks}
        if state in known:
            known[state].append(trio.current_time())
        return state

    async def check(self, message: MessageExt) -> Any:
        """The checker."""
        row, chance = self.rows[id_of(message.body)], self.world.chance
        row.record.asked.append(trio.current_time())
        left, luck = DISTURBED - trio.current_time(), chance.random()
        if left > 0:
            if luck < 0.1:
                self.world.history.had["checker raises"] += 1
                raise ValueError("the database is away")
            if luck < 0.2:
                self.world.history.had["checker says nonsense"] += 1
                return "committed"
            if luck < 0.3 and not self.is_calm:
                lasts = min(left, chance.uniform(*HANGS))
                self.world.note("checker hangs", lasts)
                await trio.sleep(lasts)
            row.patience -= 1
            if row.patience >= 0:
                return UNKNOWN
        return self.say(row, row.end)


def transactor(database: Database) -> Any:
    """What makes a member's producer."""

    def made(member: Member, **settings: Any) -> TransactionProducer:
        return TransactionProducer(member.team.name, checker=database.check, topics=[TOPIC], **settings)

    return made


async def transaction(member: Member, database: Database) -> None:
    """Send a message in a transaction."""
    world, chance, within = member.world, member.world.chance, member.timeout()
    what = chance.choice(NO_FAULTS if database.is_calm else ENDS)
    draft = member.draft(waits=True)
    call = member.call("a transaction", within + member.producer.config.send_timeout)  # and as long to tell the end
    row = Row(Transaction(send=draft.told(Outcome.INFO)), patience=chance.randrange(3))
    database.rows[draft.name] = row
    world.history.transactions[draft.name] = row.record
    is_running = False

    async def execute(_message: Message, _arg: object) -> Any:
        nonlocal is_running
        is_running, began = True, trio.current_time()
        world.history.had[f"executor: {what}"] += 1
        try:
            return await _execute(member, database, row, what)
        finally:
            call.within += trio.current_time() - began

    async def send() -> SendResult:
        assert isinstance(member.producer, TransactionProducer)
        told = await member.producer.send_in_transaction(draft.message, execute, timeout=within)
        return told.send_result

    try:
        await member.send([draft], call, send)
    finally:
        if (row.end is UNKNOWN and what != "never") or not is_running:
            row.end = ROLLBACK  # a transaction that was not committed when its process ended is none
        half = member.last
        if is_running and half.outcome is not Outcome.OK:
            half = attrs.evolve(half, outcome=Outcome.OK)  # the producer was killed after the half message
        row.record.send = half
        # Whether it comes into its topic follows from the transaction alone.
        world.history.sends[-1] = attrs.evolve(half, outcome=Outcome.INFO, place=None)
        world.history.aside.append(draft.aside(half, TRANSACTION_HALF_TOPIC, 0, member.result))


async def _execute(member: Member, database: Database, row: Row, what: str) -> Any:
    """The local transaction."""
    world, chance = member.world, member.world.chance
    if what == "rollback":
        row.end = ROLLBACK
        return database.say(row, ROLLBACK)
    if what in ("unknown", "raise", "nonsense", "die"):
        row.end = chance.choice((COMMIT, ROLLBACK))
    if what == "die":
        world.note("killed in an executor", settles=35.0)
        member.kill()
        await trio.sleep_forever()
    elif what == "slow":
        await trio.sleep(chance.uniform(0.1, SLOW))
    elif what in ("broker dies", "broker restarts"):
        await world.broker_goes(what == "broker dies")
    elif what == "raise":
        raise ValueError("the database is away")
    elif what == "nonsense":
        return "committed"
    elif what in ("unknown", "never"):
        return UNKNOWN
    row.end = COMMIT
    return database.say(row, COMMIT)
