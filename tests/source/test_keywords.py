"""The settings of an RDD: what they become, and what is said about each that cannot be used."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone

import pytest

from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from rocketpy.spark import OffsetRange, commit_offsets, offset_ranges, rdd
from rocketpy.spark.source.keywords import options_of
from rocketpy.spark.source.options import Assigned, SourceOptions, Topics, batch_options
from rocketpy.spark.source.positions import EARLIEST, LATEST, AtOffsets, AtTime, Committed

QUEUE, OTHER = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def of(topics, *, start="earliest", end="latest", namesrv="127.0.0.1:9876", group=None, **given) -> SourceOptions:
    """The options of a read, as `rdd` makes them of its arguments."""
    filters = {name: given.pop(name, None) for name in ("tags", "sql")}
    fail_on_data_loss = given.pop("fail_on_data_loss", True)
    return options_of(topics, start, end, namesrv, group, filters, fail_on_data_loss, given)


def test_defaults_are_those_of_the_format():
    assert of("T") == batch_options({"namesrv": "127.0.0.1:9876", "subscribe": "T"})


def test_what_to_read():
    assert of(["A", "B", "A"]).choice == Topics(("A", "B"))
    assert of([QUEUE, QUEUE]).choice == Assigned((QUEUE,), "topics")
    options = of([OffsetRange(QUEUE, 3, 7), OffsetRange(OTHER, 0, 0)])
    assert options.choice == Assigned((QUEUE, OTHER), "topics")
    assert options.start == AtOffsets("topics", {QUEUE: 3, OTHER: 0}, EARLIEST)
    assert options.end == AtOffsets("topics", {QUEUE: 7, OTHER: 0}, LATEST)


def test_starts_and_ends():
    moment = datetime(2026, 11, 28, 12, tzinfo=timezone(timedelta(hours=1)))
    options = of("T", start=moment, end={QUEUE: 5, OTHER: "latest"})
    assert options.start == AtTime("start", 1795863600000, EARLIEST, or_latest=True)
    assert options.end == AtOffsets("end", {QUEUE: 5, OTHER: -1}, LATEST)
    assert of("T", start="latest").start == LATEST
    assert of("T", start={QUEUE: "earliest"}).start == AtOffsets("start", {QUEUE: -2}, EARLIEST)
    assert of("T", start="committed", group="g").start == Committed(EARLIEST)


def test_numbers_and_durations():
    options = of("T", min_partitions=7, pull_timeout=timedelta(seconds=2), retry_interval=0.5, retries=0)
    assert (options.min_partitions, options.pull_timeout) == (7, 2.0)
    assert (options.retry_interval, options.retries) == (0.5, 0)


def test_they_pickle_and_show_no_secrets():
    options = of("T", access_key="me", secret_key="hush-hush")
    assert pickle.loads(pickle.dumps(options)) == options
    assert "hush-hush" not in repr(options)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topics": []}, "topics is empty"),
        ({"topics": 7}, "topics must be a topic or a list, not 7"),
        ({"topics": [7]}, "topics must be all str, all MessageQueue or all OffsetRange, and has 7"),
        ({"topics": ["T", QUEUE]}, "topics must be all str, all MessageQueue or all OffsetRange, and has Mess"),
        ({"topics": "a topic"}, "topic"),
        ({"topics": QUEUE}, "topics must be a topic or a list"),
        ({"topics": [("T", "broker-a", 0)]}, r"and has \('T', 'broker-a', 0\)"),
        ({"topics": [MessageQueue("a topic", "b", 0)]}, "topic"),
        ({"topics": OffsetRange(QUEUE, 0, 1)}, "topics must be a topic or a list"),
        ({"topics": [OffsetRange(("T", "b", 0), 0, 1)]}, r"give MessageQueue\(topic, broker_name, queue_id\)"),
        ({"topics": [OffsetRange(QUEUE, 0, 1)] * 2}, "T@broker-a:0 twice: give one range for each queue"),
        ({"topics": [OffsetRange(QUEUE, 5, 1)]}, "from offset 5 to 1, which ends before it starts"),
        ({"topics": [OffsetRange(QUEUE, -1, 1)]}, "topics has -1 for .*: give an offset from 0 on$"),
        ({"topics": [OffsetRange(QUEUE, 0, 1)], "start": "latest"}, "leave out start and end"),
        ({"topics": "T", "start": 5}, 'start must be "earliest", "latest", "committed", a datetime with a time zone'),
        ({"topics": "T", "start": "earlyest"}, 'start must be "earliest"'),
        ({"topics": "T", "end": "committed"}, 'end must be "earliest", "latest", a datetime'),
        ({"topics": "T", "start": "committed"}, "give the group too"),
        ({"topics": "T", "start": datetime(2026, 11, 28)}, "start must have a time zone"),  # noqa: DTZ001
        ({"topics": "T", "start": {QUEUE: True}}, 'start has True for T@broker-a:0: .* "earliest" or "latest"'),
        ({"topics": "T", "start": {("T", "a", 0): 1}}, "give MessageQueue"),
        ({"topics": "T", "end": "earliest"}, "end must not be the earliest"),
        ({"topics": "T", "end": {QUEUE: "earliest"}}, "end must not be the earliest"),
        ({"topics": "T", "tags": "a", "sql": "n > 1"}, "both tags and sql are given"),
        ({"topics": "T", "sql": " "}, "sql is blank"),
        ({"topics": "T", "tags": 5}, "tags must be text, not 5"),
        ({"topics": "T", "group": "a group"}, "group"),
        ({"topics": "T", "fail_on_data_loss": "false"}, "fail_on_data_loss must be True or False, not 'false'"),
        ({"topics": "T", "min_partitions": 0}, "min_partitions must be a whole number between 1 and 2147483647, not 0"),
        ({"topics": "T", "max_records_per_partition": 0.5}, "must be a whole number from 1 on, not 0.5"),
        ({"topics": "T", "retries": True}, "retries must be a whole number"),
        ({"topics": "T", "pull_timeout": 30_000}, "pull_timeout must be between 0.01 and 600 seconds, or a timedelta"),
        ({"topics": "T", "retry_interval": "1s"}, "retry_interval must be between 0 and 600 seconds"),
        ({"topics": "T", "min_partition": 5}, "rdd has no setting min_partition: did you mean min_partitions"),
        ({"topics": "T", "max_offsets_per_trigger": 5}, "rdd has no setting max_offsets_per_trigger"),
        ({"topics": "T", "acces_key": "x"}, "rdd has no setting acces_key: did you mean access_key"),
        ({"topics": "T", "instance_name": "x"}, "instance_name must be unique"),
        ({"topics": "T", "request_timeout": -1}, "request_timeout must be between"),
        ({"topics": "T", "namesrv": "nowhere"}, "nowhere"),
    ],
)
def test_what_cannot_be_used(given, said):
    with pytest.raises(ConfigError, match=said):
        of(**given)


def test_name_servers_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "b:9876")
    assert of("T", namesrv=None).client.namesrv == ("b:9876",)
    monkeypatch.delenv("NAMESRV_ADDR")
    with pytest.raises(ConfigError, match="rdd needs namesrv"):
        of("T", namesrv=None)


def test_what_is_no_context_and_what_is_no_rdd_of_ours():
    with pytest.raises(ConfigError, match=r"needs a SparkContext, such as spark\.sparkContext, not a str"):
        rdd("T", "T")
    for function in (offset_ranges, commit_offsets):
        with pytest.raises(ConfigError, match=r"not one that was made from it, such as by map, nor a list"):
            function([])
