"""The filters by properties of all groups and topics, stored in consumerFilter.json. Plays ConsumerFilterManager.

A filter is born when it is registered, and dead when the group or its subscription has gone. A dead filter is kept for
a day, so that the bit maps of messages stored meanwhile still include it; less long where the tables need its room, or
its group is deleted. The bit maps of messages stored before a
filter's birth do not include it, and are not used for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Generator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs
import trio

from rocketpy.logs import Seldom, get_logger
from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.filters import ConsumerFilterDataBody, ConsumerFilterWrapper
from rocketpy.wire.bodies.subscription import SQL92, SubscriptionData
from rocketpy_broker_sim.broker.tables.persist import FILE_LIMITS, Entries, StoredTable, pretty_steps
from rocketpy_broker_sim.filter.bloom import BloomFilter, BloomFilterData
from rocketpy_broker_sim.filter.errors import FilterExpressionError
from rocketpy_broker_sim.filter.expression import Expression
from rocketpy_broker_sim.serving.memory import TableRoom

if TYPE_CHECKING:
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.filter.expression import Compiler
    from rocketpy_broker_sim.store.filtering import ByBits

__all__ = ["ConsumerFilterData", "ConsumerFilterTable"]

log = get_logger(__name__)

DEAD_BEFORE_START_MS = 30_000
"""A filter that was alive when the broker stopped counts as having died this long before the next start, as in Java."""
_BYTES_OF_DATA = 1600


@attrs.define(eq=False)
class ConsumerFilterData:
    """The filter of one group for one topic.

    Attributes:
        born_time: When it was registered, in ms since 1970, on the clock of store times.
        dead_time: When it died, in ms since 1970; below `born_time` while it is alive.
        client_version: The version of the group's subscription.
        mask: The bits of this filter in a bit map, as a number.
    """

    group: str
    topic: str
    compiled: Expression
    expression_type: str
    born_time: int
    client_version: int
    bloom: BloomFilterData
    dead_time: int = 0
    mask: int = 0

    @property
    def is_dead(self) -> bool:
        """Whether its group or subscription has gone."""
        return self.dead_time >= self.born_time

    @property
    def size(self) -> int:
        """Its estimated size in bytes."""
        names = len(self.group) + len(self.topic)
        return _BYTES_OF_DATA + 4 * names + self.compiled.size

    def bit_test(self) -> ByBits:
        """A test of bit maps: False if a message is not wanted, True if it may be or the map was made without this."""
        born, mask, size = self.born_time, self.mask, self.bloom.bit_num // 8
        number = int.from_bytes

        def may_want(bit_map: bytes, store_timestamp: int) -> bool:
            if store_timestamp <= born or len(bit_map) != size:
                return True
            return number(bit_map, "little") & mask == mask

        return may_want

    def to_json(self) -> dict[str, Any]:
        """The JSON that stands for it in the file."""
        return {
            "bloomFilterData": {"bitNum": self.bloom.bit_num, "bitPos": list(self.bloom.positions)},
            "bornTime": self.born_time,
            "clientVersion": self.client_version,
            "consumerGroup": self.group,
            "dead": self.is_dead,
            "deadTime": self.dead_time,
            "expression": self.compiled.text,
            "expressionType": self.expression_type,
            "topic": self.topic,
        }


class ConsumerFilterTable(StoredTable):
    """Filters by topic and group.

    Args:
        config: the broker's settings.
        storage: where the file is.
        compiler: compiles the expressions in the file.
        now: the time in ms since 1970, on the clock of store times; no message was stored later.
        room: counts and bounds the memory that filters take.

    Attributes:
        bloom: Assigns bits to filters.
        version: Increases when a filter is added or removed.
    """

    file_name = "consumerFilter.json"

    def __init__(
        self,
        config: BrokerConfig,
        storage: Storage,
        compiler: Compiler,
        *,
        now: Callable[[], int] = wall_ms,
        room: TableRoom | None = None,
    ) -> None:
        super().__init__(storage)
        self._config = config
        self._compiler = compiler
        self._now = now
        self._room = room or TableRoom()
        self._topics: dict[str, dict[str, ConsumerFilterData]] = {}
        self._groups: dict[str, dict[str, ConsumerFilterData]] = {}
        self._dead: OrderedDict[ConsumerFilterData, None] = OrderedDict()
        """The dead ones, those first that have been dead for longest."""
        self._dead_size = 0
        self._seldom = Seldom(log, clock=trio.current_time)
        self.version = 0
        self.bloom = BloomFilter(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)

    # --- asking ----------------------------------------------------------------------------------------

    def get(self, topic: str, group: str) -> ConsumerFilterData | None:
        """The filter of a group for a topic; None if it has none, or its expression is wrong."""
        return self._topics.get(topic, {}).get(group)

    def of_topic(self, topic: str) -> Mapping[str, ConsumerFilterData]:
        """The filters of a topic, by group; a view that must not be kept."""
        return MappingProxyType(self._topics.get(topic, {}))

    @property
    def topics(self) -> Container[str]:
        """The topics that have filters; a view that must not be kept."""
        return self._topics

    def has_group(self, group: str) -> bool:
        """Whether a group has filters, dead ones included."""
        return group in self._groups

    def __len__(self) -> int:
        """The number of filters."""
        return sum(map(len, self._topics.values()))

    # --- changing --------------------------------------------------------------------------------------

    def needs(self, group: str, wanted: SubscriptionData) -> bool:
        """Whether `register` needs the compiled expression of a subscription."""
        if wanted.expression_type != SQL92 or not wanted.sub_string:
            return False
        known = self.get(wanted.topic, group)
        return known is None or (wanted.sub_version > known.client_version and self._differs(known, wanted))

    def _differs(self, known: ConsumerFilterData, wanted: SubscriptionData) -> bool:
        same = known.compiled.text == wanted.sub_string and known.expression_type == wanted.expression_type
        return not same or known.bloom != self.bloom.data(known.group, known.topic)

    def register(
        self, group: str, wanted: SubscriptionData, compiled: Expression | FilterExpressionError | None = None
    ) -> None:
        """Register the filter of a subscription by an expression, unless a newer version is registered.

        Args:
            group: the group's name.
            wanted: the subscription.
            compiled: its expression or the error in it, if `needs` was true.
        """
        if wanted.expression_type != SQL92 or not wanted.sub_string:
            return
        known = self.get(wanted.topic, group)
        if known is not None and wanted.sub_version <= known.client_version:
            if wanted.sub_version == known.client_version and known.is_dead:
                self._revive(known)
            return
        if known is not None and not self._differs(known, wanted):
            known.client_version = wanted.sub_version
            self._revive(known)
            return
        if known is not None:
            self._remove(known)  # also if the new expression is wrong, so that the client gets an error
        if isinstance(compiled, FilterExpressionError) or compiled is None:
            log.warning("group %s: the expression for %s cannot be used: %s", group, wanted.topic, compiled)
            return
        self._add(group, wanted, compiled)

    def _add(self, group: str, wanted: SubscriptionData, compiled: Expression) -> None:
        bloom = self.bloom.data(group, wanted.topic)
        data = ConsumerFilterData(
            group, wanted.topic, compiled, SQL92, self._now(), wanted.sub_version, bloom, mask=bloom.mask
        )
        if not self._room.fits(data.size):
            log.warning("group %s: the filter for %s is not saved: %s", group, wanted.topic, self._room.refusal)
            return
        self._put(data)
        log.info("group %s filters %s by %.256r", group, wanted.topic, compiled.text)
        self.mark_changed()

    def _revive(self, data: ConsumerFilterData) -> None:
        self._forget_dead(data)
        data.dead_time = 0
        self.mark_changed()

    def keep(self, group: str, topics: Collection[str]) -> None:
        """A group subscribes to these topics only: its other filters die."""
        for data in list(self._groups.get(group, {}).values()):
            if data.topic not in topics:
                self._give_up(data)

    def unregister(self, group: str) -> None:
        """The last member of a group has gone: its filters die."""
        self.keep(group, ())

    def _give_up(self, data: ConsumerFilterData) -> None:
        if not data.is_dead:
            data.dead_time = max(wall_ms(), data.born_time)
            self._note_dead(data)
            self.mark_changed()

    def _note_dead(self, data: ConsumerFilterData) -> None:
        self._dead[data] = None
        self._dead_size += data.size

    def _forget_dead(self, data: ConsumerFilterData) -> None:
        if data in self._dead:
            del self._dead[data]
            self._dead_size -= data.size

    def clean_steps(self) -> Generator[None, None, None]:
        """Remove filters that have been dead for `filter_data_clean_time_span`, one a step."""
        oldest, count = wall_ms() - self._config.filter_data_clean_time_span, 0
        while self._dead and (first := next(iter(self._dead))).dead_time <= oldest:
            self._remove(first)
            count += 1
            yield
        if count:
            log.info("%d filters were unused for long, and are removed", count)

    def remove_group_steps(self, group: str) -> Generator[None, None, None]:
        """Remove the dead filters of a group that is deleted, one a step. Members that are there keep theirs."""
        for data in list(self._groups.get(group, {}).values()):
            if data in self._dead:
                self._remove(data)
            yield

    def make_room(self, size: int) -> None:
        """Remove so many bytes of dead filters, if there are as many: what is new needs the room more."""
        if self._dead_size < size:
            return
        before = self._dead_size
        while before - self._dead_size < size:
            self._remove(next(iter(self._dead)))
        self._seldom.warning("full", "the tables are full: filters that nobody uses now are removed to make room")

    def _put(self, data: ConsumerFilterData) -> None:
        self._topics.setdefault(data.topic, {})[data.group] = data
        self._groups.setdefault(data.group, {})[data.topic] = data
        self._room.note(data.size)
        if data.is_dead:
            self._note_dead(data)
        self.version += 1

    def _remove(self, data: ConsumerFilterData) -> None:
        self._room.note(-data.size)
        self._forget_dead(data)
        self.version += 1
        for table, outer, inner in (
            (self._topics, data.topic, data.group),
            (self._groups, data.group, data.topic),
        ):
            del table[outer][inner]
            if not table[outer]:
                del table[outer]
        self.mark_changed()

    # --- the file --------------------------------------------------------------------------------------

    def encode_steps(self) -> Generator[None, None, bytes]:
        """The content of consumerFilter.json."""
        topics = [(topic, list(groups.values())) for topic, groups in self._topics.items()]
        return pretty_steps({"filterDataByTopic": Entries((topic, _of_topic(topic, every)) for topic, every in topics)})

    def decode(self, data: bytes) -> None:
        """Load consumerFilter.json, unless its bits come from a Bloom filter with other parameters.

        Filters that were alive when it was written count as dead until their groups register them again.
        """
        bodies = [
            each
            for by_topic in ConsumerFilterWrapper.decode(data, limits=FILE_LIMITS).filter_data_by_topic.values()
            for each in by_topic.group_filter_data.values()
        ]
        found = [(each, _bloom_of(each)) for each in bodies]
        if not all(self.bloom.is_valid(bloom) for _, bloom in found):
            log.warning("the Bloom filter has changed: %s is not used", self.file_name)
            return
        for each, bloom in found:
            self._take_over(each, bloom)
        self._sort_dead()

    def _take_over(self, body: ConsumerFilterDataBody, bloom: BloomFilterData) -> None:
        if not body.topic or not body.consumer_group or not body.expression or body.expression_type != SQL92:
            return
        try:
            compiled = self._compiler.compile(body.expression)
        except FilterExpressionError as exc:
            log.warning("group %s: the expression for %s is removed: %s", body.consumer_group, body.topic, exc)
            return
        version, born = body.client_version, body.born_time
        dead = body.dead_time or max(wall_ms() - DEAD_BEFORE_START_MS, born)
        self._put(
            ConsumerFilterData(
                body.consumer_group, body.topic, compiled, SQL92, born, version, bloom, dead, mask=bloom.mask
            )
        )

    def _sort_dead(self) -> None:
        self._dead = OrderedDict.fromkeys(sorted(self._dead, key=lambda data: data.dead_time))

    def begin_again(self, now: int) -> None:
        """Trust no existing bit map, because the last run did not stop cleanly and its filters may not all be saved.

        Args:
            now: the time in ms since 1970, not before any record was stored.
        """
        for groups in self._topics.values():
            for data in groups.values():
                data.born_time = max(data.born_time, now)
                data.dead_time = max(data.dead_time, data.born_time)
                if data not in self._dead:
                    self._note_dead(data)
        self._sort_dead()
        if self._topics:
            self.mark_changed()


def _of_topic(topic: str, every: Collection[ConsumerFilterData]) -> Entries:
    groups = Entries((data.group, data.to_json()) for data in every)
    return Entries([("groupFilterData", groups), ("topic", topic)])


def _bloom_of(body: ConsumerFilterDataBody) -> BloomFilterData:
    found = body.bloom_filter_data
    return BloomFilterData(0, ()) if found is None else BloomFilterData(found.bit_num, tuple(found.bit_pos or ()))
