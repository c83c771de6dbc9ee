"""What it costs a broker to look at a message that a reader does not want: by its tag, by SQL92, by its bit map.

A queue is read from its beginning to its end by a filter that wants nothing of it. The figure is processor time for
each message that is passed over. How slow this core is just now is noted beside it: the bars are told in the time of an
ordinary one.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from benchmarks.bars import ALONE
from benchmarks.measure import Row
from benchmarks.store.measure import TOPIC, Bench, Sample, StoreMeasure, directory
from benchmarks.task import LARGE_BODY, WINDOW, Outcome
from rocketpy.wire.java_hash import tags_code
from rocketpy_broker_sim.config import MessageStoreConfig
from rocketpy_broker_sim.filter.bloom import BloomFilter
from rocketpy_broker_sim.filter.expression import Compiler
from rocketpy_broker_sim.store.disk.real import RealStorage
from rocketpy_broker_sim.store.filtering import MessageFilter
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import IncomingMessage
from tests.pace import slowness

EXPRESSION = "amount > 100 AND color = 'red'"
_PROPERTIES = (
    "TAGS\x01t{}\x02KEYS\x01order-{}\x02UNIQ_KEY\x017F00000100002A139A55{:012X}\x02amount\x01{}\x02color\x01red\x02"
    "CLUSTER\x01DefaultCluster\x02MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02WAIT\x01true\x02"
)
_BLOOM = BloomFilter(20, 32)

ROWS = (
    Row("store-filter-tag", "a message passed over by its tag", "µs", kind="store"),
    Row("store-filter-sql", "by SQL92, two conditions", "µs", "store-filter-tag", "store"),
    Row("store-filter-bits", "by its bit map", "µs", "store-filter-tag", "store"),
    Row("store-filter-tag-ext", "by its tag, beside a bit map", "µs", "store-filter-tag", "store"),
)


class OthersBits:
    """Bit maps of messages that one other group wants."""

    def __init__(self) -> None:
        self._bits = _BLOOM.bits([_BLOOM.data("other", TOPIC).mask])

    def begin(self) -> Container[str]:
        """Another step of dispatching begins."""
        return (TOPIC,)

    def of(self, topic: str, properties: Sequence[bytes]) -> Sequence[bytes]:
        """The same for all."""
        return [self._bits] * len(properties)


def take(bench: Bench) -> Iterator[Sample]:
    """Read a queue to its end by each kind of filter."""
    by_tag = MessageFilter(frozenset({tags_code("other")}))
    by_sql = MessageFilter(by_message=Compiler().compile(EXPRESSION).matches)
    mask, number = _BLOOM.data("mine", TOPIC).mask, int.from_bytes
    by_bits = by_sql._replace(by_bits=lambda bits, stored: number(bits, "little") & mask == mask)
    with directory() as place:
        for extension, rows in (
            (False, (("store-filter-tag", by_tag), ("store-filter-sql", by_sql))),
            (True, (("store-filter-tag-ext", by_tag), ("store-filter-bits", by_bits))),
        ):
            store = _filled(place / str(extension), bench.scale.records, extension=extension)
            for row, wanted in rows:
                yield row, ALONE, _passed_over(store, bench.scale.records, wanted)
            store.close()


def _filled(place: Path, count: int, *, extension: bool) -> MessageStore:
    config = MessageStoreConfig(enable_consume_queue_ext=extension, message_index_enable=False)
    store = MessageStore(RealStorage(place), config)
    store.load()
    if extension:
        store.keep_bit_maps(OthersBits())
    for each in range(count):
        properties = _PROPERTIES.format(each % 10, each, each, each % 100)
        store.put(IncomingMessage(TOPIC, 0, LARGE_BODY, properties))
        if each % WINDOW == WINDOW - 1:
            store.commit_pending()
            store.reput()
    store.commit_pending()
    while store.can_reput:
        store.reput()
    return store


def _passed_over(store: MessageStore, count: int, wanted: MessageFilter) -> Outcome:
    slow = slowness()
    offset, began = 0, time.process_time()
    while offset < count:
        found = store.reads.get(TOPIC, 0, offset, 32, wanted=wanted)
        assert not found.count, "nothing is wanted"
        offset = found.next_begin_offset
    each = (time.process_time() - began) / count * 1e6
    return Outcome(each, count, notes={"slower_times": (slow + slowness()) / 2})


MEASURE = StoreMeasure("store-filter", ROWS, take)
