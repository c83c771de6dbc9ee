"""Requests and files about a group or a store with very many topics: no step deals with more than a few of them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from trio.testing import MockClock

from rocketpy.wire.bodies.offsets import ConsumerOffsetSerializeWrapper
from rocketpy.wire.bodies.stats import ConsumeStats
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.admin import GetConsumeStatsRequestHeader
from rocketpy.wire.lenient_json import parse_json
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.processors import offset_tables
from rocketpy_broker_sim.broker.processors.admin_cleaning import clean_unused_topics
from rocketpy_broker_sim.broker.processors.consume_stats import get_consume_stats
from rocketpy_broker_sim.broker.processors.offset_tables import get_all_offsets
from rocketpy_broker_sim.broker.tables import persist
from rocketpy_broker_sim.broker.tables.topics import TopicTable
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import broker_and_client, settings

MANY = 3000
MOST = 512


class Tally:
    """Counts what a step does.

    Attributes:
        most: The most that any step has done.
    """

    def __init__(self) -> None:
        self.most = 0
        self._now = 0

    def of(self, function: Callable[..., Any], size: Callable[..., int]) -> Callable[..., Any]:
        """A function that counts as so much."""

        def counted(*args: Any, **more: Any) -> Any:
            self._now += size(*args)
            return function(*args, **more)

        return counted

    def run(self, steps: Generator[Any, None, Any]) -> Any:
        """Do some work. Returns what it returns."""
        while True:
            self._now = 0
            try:
                next(steps)
            except StopIteration as stop:
                return stop.value
            finally:
                self.most = max(self.most, self._now)


def fill(broker: Broker, count: int = MANY) -> list[str]:
    """Have a group commit on very many topics."""
    names = [f"Many-{number}" for number in range(count)]
    broker.topics.put_all([TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1) for name in names])
    for name in names:
        broker.offsets.commit("g", name, 0, 0)
    return names


async def test_offsets_of_a_group_on_very_many_topics_are_told(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = Tally()
    async with broker_and_client() as (broker, client):
        names = fill(broker)
        counted = tally.of(offset_tables.write_json, lambda value: str(value).count("Many-"))
        monkeypatch.setattr(offset_tables, "write_json", counted)
        steps = get_all_offsets(
            broker._views.offset_tables, client.connection, RemotingCommand(RequestCode.GET_ALL_CONSUMER_OFFSET)
        )
        answer = tally.run(steps)
    found = ConsumerOffsetSerializeWrapper.decode(answer.body)
    assert found.offset_table == {f"{name}@g": {0: 0} for name in names}
    assert parse_json(answer.body)["groupTopicMap"] == {"g": names}
    assert tally.most <= MOST


async def test_the_file_of_offsets_of_a_group_on_very_many_topics_is_written(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = Tally()
    async with broker_and_client() as (broker, _):
        names = fill(broker)
        expected = "[" + ",".join(f'"{name}"' for name in names) + "]"
        monkeypatch.setattr(persist, "encode_basestring", tally.of(persist.encode_basestring, lambda text: 1))
        content = tally.run(broker.offsets.encode_steps())
    assert f'\n\t\t"g":{expected}\n'.encode() in content
    assert tally.most <= MOST


async def test_how_far_a_group_is_on_very_many_topics_is_told(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tally = Tally()
    async with broker_and_client() as (broker, client):
        fill(broker)
        monkeypatch.setattr(broker.topics, "get", tally.of(broker.topics.get, lambda name: 1))
        view = broker._views.consume_stats
        monkeypatch.setattr(view.group_reads, "per_second", tally.of(view.group_reads.per_second, lambda *_: 1))
        header = GetConsumeStatsRequestHeader(consumer_group="g", topic=None)
        request = RemotingCommand(RequestCode.GET_CONSUME_STATS, header.to_ext())
        answer = tally.run(get_consume_stats(view, client.connection, request))
    assert len(ConsumeStats.decode(answer.body).offset_table) == MANY
    assert tally.most <= MOST


def test_topics_are_declared_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    tally = Tally()
    table = TopicTable(settings(), MemoryStorage())
    names = [f"Many-{number}" for number in range(MANY)]
    table.put_all([TopicConfig(topic_name=name) for name in names])
    monkeypatch.setattr(table, "put_all", tally.of(table.put_all, len))
    steps = table.declare_ordered_steps([*names, "unknown"])
    next(steps)
    last = TopicConfig(topic_name=names[-1], read_queue_nums=1)
    table.put(last)
    table.delete(names[-2])
    tally.run(steps)
    assert all(table.all()[name].order for name in names if name in table)
    assert (table.all()[names[-1]].read_queue_nums, names[-2] in table) == (1, False)
    assert tally.most <= MOST


def test_topics_without_settings_are_looked_for() -> None:
    tally = Tally()
    compared = tally.of(str.__lt__, lambda *_: 1)

    class Name(str):
        """Counts how often it is compared, as sorting does."""

        __slots__ = ()

        def __lt__(self, other: str) -> bool:
            return bool(compared(self, other))

    names = [Name(f"Many-{number * 7919 % 20_000}") for number in range(20_000)]
    broker: Any = SimpleNamespace(
        store=SimpleNamespace(reads=SimpleNamespace(topics=lambda: names)),
        topics=set(names),
        persistence=SimpleNamespace(answer_after_save=lambda *_: None),
    )
    connection = cast("Any", SimpleNamespace(address="a"))
    tally.run(clean_unused_topics(broker, connection, RemotingCommand(RequestCode.CLEAN_UNUSED_TOPIC)))
    assert 0 < tally.most < 100_000  # all at once takes a quarter of a million
