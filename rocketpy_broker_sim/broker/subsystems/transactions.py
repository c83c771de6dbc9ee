"""Transactions as a subsystem of the broker: it runs the services that write ends and check open transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import BrokerError, StoreError
from rocketpy.logs import get_logger
from rocketpy.message import PropertyName
from rocketpy.services import run_blocking, ticks
from rocketpy.wire.names import TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from rocketpy.wire.properties import find_property
from rocketpy_broker_sim.broker.metrics.parts import metrics_of_transactions
from rocketpy_broker_sim.broker.runtime_info import measures_of_transactions
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem
from rocketpy_broker_sim.broker.tables.offsets import NOT_FOUND
from rocketpy_broker_sim.broker.tables.transaction_metrics import TransactionMetrics
from rocketpy_broker_sim.broker.transactions.asking import Asking
from rocketpy_broker_sim.broker.transactions.checking import CheckService
from rocketpy_broker_sim.broker.transactions.half import HALF_QUEUE
from rocketpy_broker_sim.broker.transactions.ledger import Ledger
from rocketpy_broker_sim.broker.transactions.op_service import OpService
from rocketpy_broker_sim.broker.transactions.reading import op_messages
from rocketpy_broker_sim.broker.transactions.window import Mark
from rocketpy_broker_sim.serving.slices import in_slices

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.subsystems.storing import Storing
    from rocketpy_broker_sim.broker.subsystems.tables import Tables
    from rocketpy_broker_sim.broker.tables.producers import ProducerTable
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.metrics.metric import Family
    from rocketpy_broker_sim.store.put_result import Arrival

__all__ = ["Transactions"]

log = get_logger(__name__)

_REAL_TOPIC = PropertyName.REAL_TOPIC.encode()
_COPY = [
    name.encode() for name in (PropertyName.TRANSACTION_CHECK_TIMES, PropertyName.TRANSACTION_PREPARED_QUEUE_OFFSET)
]


def _is_copy(properties: bytes) -> bool:
    """Whether a half message is the copy of an earlier one."""
    return any(name in properties and find_property(properties, name) is not None for name in _COPY)


class Transactions(Subsystem):
    """The transactions of one broker.

    The progress is kept among the offsets of consumer groups, as with Apache's broker, and is noted only once the disk
    has everything before it.

    Args:
        config: the settings.
        storage: where the number of open transactions is kept.
        storing: has the half messages; recovered before.
        tables: topics and offsets; recovered before.
        producers: can be asked how transactions have ended.
        host: returns the address of this broker, in the form that records have.

    Attributes:
        ledger: The state of transactions.
    """

    def __init__(
        self,
        config: BrokerConfig,
        storage: Storage,
        storing: Storing,
        tables: Tables,
        producers: ProducerTable,
        host: Callable[[], bytes],
    ) -> None:
        self._config = config
        self._reads = storing.store.reads
        self._tables = tables
        self._metrics = TransactionMetrics(storage, tables.topics.__contains__)
        place = partial(storing.place, wait=False)
        self.ledger = Ledger(config, place, host, self._metrics, storing.changes)
        self._ops = OpService(config, self.ledger, storing.commit)
        self._checks = CheckService(
            config,
            storing.store,
            tables.topics,
            self.ledger,
            place=place,
            commit=storing.commit,
            flush=partial(_flush, storing),
            ask=Asking(config.broker_name, producers, self.ledger).ask,
            note=self._note,
        )
        self._counted_from = 0
        tables.topics.subscribe(self._topics_changed)

    def arrived(self, arrival: Arrival) -> None:
        """Count transactions that have begun: half messages that are not copies."""
        if arrival.topic != TRANSACTION_HALF_TOPIC:
            return
        begun: dict[bytes, int] = {}
        first = arrival.max_offset - len(arrival.tags_codes)
        for properties in arrival.properties[max(0, self._counted_from - first) :]:
            topic = find_property(properties, _REAL_TOPIC)
            if topic and not _is_copy(properties):
                begun[topic] = begun.get(topic, 0) + 1
        for topic, count in begun.items():
            self._metrics.add(topic.decode("utf-8", "replace"), count)

    def _topics_changed(self, names: list[str]) -> None:
        for name in self._metrics.counted_among(names):
            self._metrics.forget(name)

    # --- as a part of the broker ---------------------------------------------------------------------------

    def recover(self) -> None:
        """Read the progress, and which transactions have ended since."""
        self._metrics.load()
        ledger, base = self.ledger, self._offset(TRANSACTION_HALF_TOPIC)
        first = self._offset(TRANSACTION_OP_TOPIC)
        ledger.window.start(base)
        ledger.progress.start(first)
        end = self._counted_from = self._reads.max_offset(TRANSACTION_HALF_TOPIC, HALF_QUEUE)
        for at, offsets in op_messages(self._reads, first):
            ledger.progress.note(at, offsets, base)
            for offset in offsets:
                if offset < end:
                    ledger.window.mark(offset, Mark.ENDED)

    def _offset(self, topic: str) -> int:
        """The noted progress in one of the two topics, within the offsets that the topic has now."""
        low, high = self._reads.min_offset(topic, HALF_QUEUE), self._reads.max_offset(topic, HALF_QUEUE)
        noted = self._tables.offsets.query(TRANSACTION_GROUP, topic, HALF_QUEUE)
        return low if noted == NOT_FOUND else min(max(noted, low), high)

    def _note(self) -> None:
        """Note the progress."""
        base = self.ledger.window.base
        wanted = {TRANSACTION_HALF_TOPIC: base, TRANSACTION_OP_TOPIC: self.ledger.progress.done(base)}
        try:
            for topic, offset in wanted.items():
                if self._offset(topic) != offset:
                    self._tables.offsets.commit(TRANSACTION_GROUP, topic, HALF_QUEUE, offset)
        except BrokerError as exc:
            log.error("the progress of transaction checks is not saved: %s", exc)

    def run(self) -> Iterable[Service]:
        """The services that write ends, check open transactions, and write their number."""
        yield self._ops.serve
        yield self._checks.serve
        yield self._save_metrics

    @trio.lowlevel.enable_ki_protection
    async def _save_metrics(self) -> None:
        async for _ in ticks(self._config.transaction_metric_flush_interval / 1000):
            await self._write_metrics()

    async def _write_metrics(self) -> None:
        if not self._metrics.changed:
            return
        self._metrics.changed, is_written = False, False
        try:
            await run_blocking(self._metrics.file.save, await in_slices(self._metrics.encode_steps()))
            is_written = True
        except StoreError as exc:
            log.warning("the number of open transactions cannot be written: %s", exc)
        finally:
            self._metrics.changed = self._metrics.changed or not is_written

    async def close(self) -> None:
        """Write all ends, so that these transactions are not checked after the next start."""
        try:
            self._ops.write_all()
        except StoreError as exc:
            log.warning("transactions that have ended may be checked again: %s", exc)
        await self._write_metrics()

    def measures(self) -> Mapping[str, str]:
        """Counts of transactions, by keys of ours."""
        return measures_of_transactions(self.ledger, self._reads)

    def families(self) -> Iterable[Family]:
        """How many transactions are open, and how the others have ended."""
        return metrics_of_transactions(self.ledger, self._reads.max_offset)


async def _flush(storing: Storing) -> None:
    """Return when the disk has the copies of half messages, and they can be read: answers name them at once."""
    await storing.flusher.flush_taken()
    storing.turn.make_readable()
