"""Tables that outlive connections count in the budget of their server: exactly, in any order of changes.

What is counted is compared with what stands in the tables, entry by entry; a change that is refused leaves both alone.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rocketpy.errors import BrokerError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.bodies.groups import (
    CustomizedRetryPolicy,
    GroupRetryPolicy,
    SimpleSubscriptionData,
    SubscriptionGroupConfig,
)
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy_broker_sim.broker.opening import open_broker
from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable, size_of_offsets
from rocketpy_broker_sim.broker.tables.resets import size_of_resets
from rocketpy_broker_sim.broker.tables.subscriptions import (
    SubscriptionGroupTable,
    size_of_forbidden,
    size_of_group,
)
from rocketpy_broker_sim.broker.tables.topics import TopicTable, size_of_topic
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.serving.memory import HELD_PULLS, MemoryBudget, TableRoom
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.test_kept import Closable

KIB = 1024
topic_names = st.sampled_from([f"T{number}" for number in range(6)])
group_names = st.sampled_from([f"G{number}" for number in range(6)])
queue_ids = st.integers(0, 5)
clients = st.sampled_from(["a", "b", "c"])
attributes = st.sampled_from([{}, {"message.type": "FIFO"}, {"message.type": "NORMAL", "cleanup.policy": "DELETE"}])


def topics(names: list[str], given: dict[str, str]) -> list[TopicConfig]:
    return [TopicConfig(topic_name=name, attributes=dict(given)) for name in names]


@st.composite
def groups(draw: st.DrawFn) -> SubscriptionGroupConfig:
    group = SubscriptionGroupConfig(group_name=draw(group_names), retry_max_times=draw(st.sampled_from([16, 3])))
    if draw(st.booleans()):
        count = draw(st.integers(0, 4))
        group.subscription_data_set = [SimpleSubscriptionData(topic="T" * number) for number in range(count)]
    if draw(st.booleans()):
        delays = draw(st.lists(st.integers(0, 2**63 - 1), max_size=4))
        group.group_retry_policy = GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy(next=delays))
    return group


class TablesOfABroker(RuleBasedStateMachine):
    """The three tables of a broker and some connections, on a budget that they fill."""

    @initialize(most=st.sampled_from([32 * KIB, 256 * KIB]))
    def begin(self, most: int) -> None:
        self.budget = MemoryBudget(most)
        self.storage, self.config = MemoryStorage(), BrokerConfig(max_topics=40, max_groups=20, max_consumer_offsets=30)
        self.pulls = self.budget.account(HELD_PULLS)
        self.peers: dict[Closable, int] = {}
        self.budget.on_gave_way(lambda connection: self._let_go(connection))
        self._open()

    def _open(self) -> None:
        rooms = [TableRoom(self.budget, "delete some") for _ in range(3)]
        self.topics = TopicTable(self.config, self.storage, rooms[0])
        self.groups = SubscriptionGroupTable(self.config, self.storage, rooms[1])
        self.offsets = ConsumerOffsetTable(self.config, self.storage, rooms[2])
        self.rooms = rooms

    def _attempt(self, change: Callable[[], object]) -> None:
        """Nothing is done by what is refused."""
        before = self._state()
        refusal = ""
        try:
            change()
        except BrokerError as exc:
            refusal = exc.remark
        if refusal:
            assert "raise max" in refusal
            assert self._state() == before
        else:
            assert self.budget.tables <= max(before[1], self.budget.most_in_tables)

    def _state(self) -> tuple[list[bytes], int]:
        return [table.encode() for table in (self.topics, self.groups, self.offsets)], self.budget.tables

    def _let_go(self, connection: object) -> None:
        kept = self.peers.pop(connection, 0)
        if kept:
            self.pulls.release(connection, kept)

    # --- tables ---

    @rule(names=st.lists(topic_names, max_size=8), given=attributes)
    def put_topics(self, names: list[str], given: dict[str, str]) -> None:
        self._attempt(lambda: self.topics.put_all(topics(names, given)))

    @rule(name=topic_names)
    def create_on_send(self, name: str) -> None:
        self._attempt(lambda: self.topics.create_on_send(name, "TBW102", 4))

    @rule(name=group_names)
    def retry_topic(self, name: str) -> None:
        self._attempt(lambda: self.topics.create_retry(f"%RETRY%{name}", 1))

    @rule(names=st.lists(topic_names, max_size=3))
    def declare_ordered(self, names: list[str]) -> None:
        self._attempt(lambda: self.topics.declare_ordered(names))

    @rule(name=topic_names)
    def delete_topic(self, name: str) -> None:
        self.topics.delete(name)
        self.offsets.remove_topic(name)

    @rule(made=st.lists(groups(), max_size=4))
    def put_groups(self, made: list[SubscriptionGroupConfig]) -> None:
        self._attempt(lambda: self.groups.put_all(made))

    @rule(name=group_names)
    def find_group(self, name: str) -> None:
        self._attempt(lambda: self.groups.find(name))

    @rule(name=group_names)
    def delete_group(self, name: str) -> None:
        self.groups.delete(name)

    @rule(group=group_names, topic=topic_names, readable=st.booleans())
    def forbid(self, group: str, topic: str, readable: bool) -> None:
        self._attempt(lambda: self.groups.set_readable(group, topic, readable))

    @rule(group=group_names, topic=topic_names, queue_id=queue_ids, offset=st.integers(0, 2**60))
    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self._attempt(lambda: self.offsets.commit(group, topic, queue_id, offset))

    @rule(group=group_names, topic=topic_names, found=st.dictionaries(queue_ids, st.integers(0, 9)))
    def reset(self, group: str, topic: str, found: dict[int, int]) -> None:
        self._attempt(lambda: self.offsets.assign_resets(group, topic, found))

    @rule(group=group_names, topic=topic_names, queue_id=queue_ids, client=clients, offset=st.integers(0, 9))
    def tell_reset(self, group: str, topic: str, queue_id: int, client: str, offset: int) -> None:
        self.offsets.tell_reset(group, topic, queue_id, client=client, offset=offset)

    @rule(group=group_names)
    def remove_offsets(self, group: str) -> None:
        self.offsets.remove_group(group)

    @rule()
    def start_again(self) -> None:
        """What was kept is there again, whatever the budget says; resets are not kept."""
        for table in (self.topics, self.groups, self.offsets):
            table.persist()
        for room in self.rooms:
            room.set(0)
        self._open()
        for table in (self.topics, self.groups, self.offsets):
            table.load()

    # --- connections ---

    @rule(number=st.integers(1, 9), size=st.integers(1, 16 * KIB))
    def hold(self, number: int, size: int) -> None:
        peer = Closable(number)
        if self.pulls.charge(peer, size):
            self.peers[peer] = size

    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        if self.peers:
            self._let_go(data.draw(st.sampled_from(list(self.peers))))

    # --- what always holds ---

    @invariant()
    def what_is_counted_is_what_is_there(self) -> None:
        if not hasattr(self, "rooms"):
            return
        taken = [room.taken for room in self.rooms]
        assert taken[0] == sum(map(size_of_topic, self.topics.all().values()))
        forbidden = sum(size_of_forbidden(group, bits) for group, bits in self.groups.forbidden().items())
        assert taken[1] == forbidden + sum(map(size_of_group, self.groups.all().values()))
        offsets = sum(size_of_offsets(key, len(queues)) for key, queues in self.offsets.table().items())
        pending = self.offsets._resets
        assert pending._told.keys() <= pending._offsets.keys()
        resets = sum(
            size_of_resets(key, len(queues), [len(told) for told in pending._told.get(key, {}).values()])
            for key, queues in pending._offsets.items()
        )
        assert taken[2] == offsets + resets
        assert self.budget.tables == sum(taken)

    @invariant()
    def all_together_stay_within_the_budget(self) -> None:
        if hasattr(self, "rooms"):
            assert self.budget.kept == sum(self.peers.values()) <= self.budget.room
            assert self.budget.room >= self.budget.most // 2


TestTablesOfABroker = TablesOfABroker.TestCase
TestTablesOfABroker.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)


# --- one by one ----------------------------------------------------------------------------------------


def room(most: int) -> tuple[MemoryBudget, TableRoom]:
    budget = MemoryBudget(most)
    return budget, TableRoom(budget, "delete topics that are not needed")


def test_a_full_table_says_what_to_do_and_takes_nothing() -> None:
    budget, of_topics = room(64 * KIB)
    table = TopicTable(BrokerConfig(), MemoryStorage(), of_topics)
    before = dict(table.all())
    with pytest.raises(BrokerError, match="delete topics that are not needed, or raise maxKeptBytes"):
        table.put_all([TopicConfig(topic_name=f"T{number}") for number in range(200)])
    assert dict(table.all()) == before
    assert budget.tables == of_topics.taken == sum(map(size_of_topic, before.values()))


def test_a_change_that_takes_no_more_is_made_in_a_full_table() -> None:
    budget, of_topics = room(64 * KIB)
    table = TopicTable(BrokerConfig(), MemoryStorage(), of_topics)
    budget.note_table(budget.most_in_tables - budget.tables - size_of_topic(TopicConfig(topic_name="T1")))
    table.put(TopicConfig(topic_name="T1"))
    table.put(TopicConfig(topic_name="T1", perm=4))
    with pytest.raises(BrokerError):
        table.put(TopicConfig(topic_name="T2"))
    table.delete("T1")
    table.put(TopicConfig(topic_name="T2"))


def test_a_broker_reads_its_own_tables_whatever_the_budget_is() -> None:
    storage = MemoryStorage()
    first = TopicTable(BrokerConfig(), storage)
    first.put_all([TopicConfig(topic_name=f"T{number}") for number in range(200)])
    first.persist()
    budget, of_topics = room(8 * KIB)
    table = TopicTable(BrokerConfig(), storage, of_topics)
    assert table.load()
    assert len(table) == len(first)
    assert budget.tables > budget.most
    assert budget.room == 4 * KIB  # connections still have their half
    with pytest.raises(BrokerError):
        table.put(TopicConfig(topic_name="new"))
    table.adopt(TopicConfig(topic_name="found"))
    assert "found" in table


def test_a_full_table_closes_nobody_who_keeps_little() -> None:
    budget, of_topics = room(64 * KIB)
    pulls = budget.account(HELD_PULLS)
    closed = []

    def let_go(connection: Closable) -> None:
        closed.append(connection)
        pulls.release(connection, budget.kept_for(connection))

    budget.on_gave_way(let_go)
    modest, greedy = Closable(1), Closable(2)
    assert pulls.charge(modest, 8 * KIB)
    assert pulls.charge(greedy, 40 * KIB)
    of_topics.take(16 * KIB)
    assert closed == []
    of_topics.take(16 * KIB)
    assert closed == [greedy]
    with pytest.raises(BrokerError):
        of_topics.take(1)
    assert modest.is_open
    assert pulls.charge(Closable(3), 24 * KIB)


# --- the reckoning -------------------------------------------------------------------------------------


def many_topics(table: TopicTable, count: int) -> None:
    for number in range(count):
        text = b'{"topicName":"topic-%06d","attributes":{"message.type":"FIFO"}}' % number
        table.put(TopicConfig.decode(text))


def usual_groups(table: SubscriptionGroupTable, count: int) -> None:
    for number in range(count):
        table.put(SubscriptionGroupConfig.decode(b'{"groupName":"group-%06d"}' % number))
    table.encode()


def groups_of_their_own(table: SubscriptionGroupTable, count: int) -> None:
    for number in range(count // 20):
        subscribed = b",".join(b'{"topic":"topic-%d","expression":"Tag%d||*"}' % (each, number) for each in range(20))
        delays = b",".join(b"%d" % (1000 + number * each) for each in range(20))
        text = b'"groupName":"group-%06d","retryMaxTimes":%d,"subscriptionDataSet":[%b]' % (number, number, subscribed)
        policy = b'"groupRetryPolicy":{"customizedRetryPolicy":{"next":[%b]}}' % delays
        table.put(SubscriptionGroupConfig.decode(b"{%b,%b}" % (text, policy)))
    table.encode()


def forbidden_alone(table: SubscriptionGroupTable, count: int) -> None:
    for number in range(count):
        table.set_readable(f"group-{number:06}", f"topic-{number:06}", False)


def forbidden_together(table: SubscriptionGroupTable, count: int) -> None:
    for number in range(count):
        table.set_readable(f"group-{number // 100:06}", f"topic-{number:06}", False)


def offsets_alone(table: ConsumerOffsetTable, count: int) -> None:
    for number in range(count):
        table.commit(f"group-{number:06}", f"topic-{number:06}", 0, 10**6 + number)


def offsets_together(table: ConsumerOffsetTable, count: int) -> None:
    for number in range(count):
        table.commit(f"group-{number // 16:06}", "topic", number % 16, 10**6 + number)


def resets(table: ConsumerOffsetTable, count: int) -> None:
    for number in range(count // 16):
        found = {queue_id: 10**6 + number * 16 + queue_id for queue_id in range(16)}
        table.assign_resets(f"group-{number:06}", f"topic-{number:06}", found)


def resets_told(table: ConsumerOffsetTable, count: int) -> None:
    resets(table, count // 4)
    for number in range(count // 64):
        for queue_id in range(16):
            clients = 1 if number % 2 else 9
            for client in range(clients):
                address = f"127.0.{queue_id}.{number}:{40000 + client}"
                table.tell_reset(f"group-{number:06}", f"topic-{number:06}", queue_id, client=address, offset=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "fill"),
    [
        (TopicTable, many_topics),
        (SubscriptionGroupTable, usual_groups),
        (SubscriptionGroupTable, groups_of_their_own),
        (SubscriptionGroupTable, forbidden_alone),
        (SubscriptionGroupTable, forbidden_together),
        (ConsumerOffsetTable, offsets_alone),
        (ConsumerOffsetTable, offsets_together),
        (ConsumerOffsetTable, resets),
        (ConsumerOffsetTable, resets_told),
    ],
)
def test_entries_are_reckoned_to_take_no_less_than_they_do(
    make: Callable[..., object], fill: Callable[[object, int], None]
) -> None:
    of_table = TableRoom()
    table = make(BrokerConfig(), MemoryStorage(), of_table)
    fill(table, 100)  # what is made once is there
    before = of_table.taken
    gc.collect()
    tracemalloc.start()
    try:
        fill(table, 4000)
        gc.collect()
        measured = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert measured <= of_table.taken - before < 3 * measured


async def test_a_broker_says_at_its_start_that_its_tables_are_full(autojump_clock, caplog):
    for kept, said in ((1024 * KIB, []), (KIB, ["512 are allowed: nothing can be added"])):
        caplog.clear()
        async with open_broker(BrokerConfig(max_kept_bytes=kept), network=MemoryNetwork(), storage=MemoryStorage()):
            texts = [record.getMessage() for record in caplog.records if "tables of this server" in record.getMessage()]
            assert len(texts) == len(said), texts
            assert all(part in text for part, text in zip(said, texts, strict=True))
