"""Options: what they become, and what is said about each that cannot be used."""

from __future__ import annotations

import pickle

import pytest

from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from rocketpy.spark.option_names import folded
from rocketpy.spark.source.entry import schema_of
from rocketpy.spark.source.names import OPTIONS
from rocketpy.spark.source.options import Assigned, Pattern, Topics, batch_options, stream_options
from rocketpy.spark.source.positions import EARLIEST, LATEST, AtOffsets, AtTime

NEEDED = {"namesrv": "127.0.0.1:9876", "subscribe": "Flights"}
QUEUE = MessageQueue("T", "broker-a", 0)


def batch(**options):
    return batch_options({**NEEDED, **options})


def stream(**options):
    return stream_options({**NEEDED, **options})


def test_defaults_are_those_of_kafka():
    assert (batch().start, batch().end) == (EARLIEST, LATEST)
    assert stream().start == LATEST
    assert batch().fail_on_data_loss
    assert batch().retries == 3


def test_case_and_underscores_do_not_count():
    given = {"NAMESRV": "a:1", "subscribe_pattern": "T.*", "startingoffsets": "latest", "max_offsets_per_trigger": "7"}
    options = stream_options(given)
    assert (options.choice, options.start, options.max_offsets_per_trigger) == (Pattern("T.*"), LATEST, 7)
    assert len({folded(name) for name in OPTIONS}) == len(OPTIONS)


def test_name_servers_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "b:9876")
    assert batch_options({"subscribe": "T"}).client.namesrv == ("b:9876",)
    monkeypatch.delenv("NAMESRV_ADDR")
    with pytest.raises(ConfigError, match="namesrv is missing"):
        batch_options({"subscribe": "T"})


def test_what_to_read():
    assert batch(subscribe="A, B,A").choice == Topics(("A", "B"))
    given = {"namesrv": "a:1", "assign": '{"T": {"broker-a": [0, 3]}}'}
    assert batch_options(given).choice == Assigned((QUEUE, MessageQueue("T", "broker-a", 3)))


def test_starts_and_ends():
    options = batch(
        startingOffsets='{"T": {"broker-a": {"0": 23, "1": -2}}}', endingOffsets='{"T":{"broker-a":{"0":-1}}}'
    )
    assert isinstance(options.start, AtOffsets)
    assert options.start.at(QUEUE) == 23
    assert options.start.at(MessageQueue("T", "broker-a", 1)) == EARLIEST
    assert options.start.at(MessageQueue("T", "broker-a", 9)) == EARLIEST
    assert isinstance(options.end, AtOffsets)
    assert options.end.at(QUEUE) == options.end.at(MessageQueue("T", "broker-a", 9)) == LATEST
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    by_time = batch(startingTimestamp="1700000000000", endingTimestamp="1700000001000", **strategy)
    assert by_time.start == AtTime("startingTimestamp", 1_700_000_000_000, EARLIEST, or_latest=True)
    assert isinstance(by_time.end, AtTime)
    assert by_time.end.times == 1_700_000_001_000
    some = stream(startingOffsetsByTimestamp='{"T": {"broker-a": {"0": 1700000000000, "1": 0}}}')
    assert isinstance(some.start, AtTime)
    assert [some.start.at(QUEUE._replace(queue_id=number)) for number in (0, 1, 2)] == [1_700_000_000_000, 0, None]
    assert batch(startingTimestamp="0").start == AtTime("startingTimestamp", 0, EARLIEST, or_latest=False)


def test_offsets_copied_from_the_progress_of_a_query_are_taken():
    text = '{"T": {"broker-a": {"0": 23}}, "#begins": {"T": {"broker-a": {"0": 1}}}}'
    start = stream(startingOffsets=text).start
    assert isinstance(start, AtOffsets)
    assert start.offsets == {QUEUE: 23}


def test_settings_of_the_client():
    client = batch(
        **{"rocketmq.accesskey": "me", "rocketmq.secretKey": "hush", "rocketmq.request_timeout": "1.5"}
    ).client
    assert (client.access_key, client.secret_key, client.request_timeout) == ("me", "hush", 1.5)


@pytest.mark.parametrize(("text", "seconds"), [("15m", 900), ("30s", 30), ("500ms", 0.5), ("2h", 7200), ("7", 0.007)])
def test_delays(text, seconds):
    assert stream(minOffsetsPerTrigger="5", maxTriggerDelay=text).max_trigger_delay == seconds


def test_they_pickle_and_hide_secrets():
    options = batch(
        **{"rocketmq.accessKey": "me", "rocketmq.secretKey": "hush-hush", "rocketmq.securityToken": "tok-en"}
    )
    assert pickle.loads(pickle.dumps(options)) == options
    assert "hush" not in repr(options)
    assert "tok-en" not in repr(options)


BAD = [
    ({"subscribe": "A B"}, "characters besides"),
    ({"subscribe": " , "}, "names no topic"),
    ({"subscribePattern": "T.*"}, "subscribe and subscribePattern are given"),
    ({"startingOfsets": "earliest"}, r"no option 'startingOfsets': did you mean startingOffsets"),
    ({"topic": "T"}, "to read a topic, use subscribe"),
    ({"kafka.bootstrap.servers": "a:1"}, "use namesrv"),
    ({"kafka.security.protocol": "SSL"}, "prefix rocketmq"),
    ({"path": "/x"}, "nothing to load"),
    ({"starting_offsets": "earliest", "startingOffsets": "earliest"}, "given twice"),
    ({"startingOffsets": "latest"}, "for streams"),
    ({"startingOffsets": "newest"}, 'must be "earliest"'),
    ({"startingOffsets": '{"T": 5}'}, "in the wrong place"),
    ({"startingOffsets": '{"T": {"broker-a": {"0": -3}}}'}, "-2 for the earliest"),
    ({"startingOffsets": '{"T": {"broker-a": {"x": 3}}}'}, "numbered from 0"),
    ({"startingOffsets": '{"T": {"broker-a": {"0": 3, "0": 4}}}'}, "names 0 twice"),
    ({"startingOffsets": "{"}, "is not JSON"),
    ({"startingOffsets": "earliest", "startingTimestamp": "5"}, "contradict each other"),
    ({"endingOffsets": "latest", "endingOffsetsByTimestamp": "{}"}, "contradict each other"),
    ({"endingOffsets": "earliest"}, "must not be the earliest"),
    ({"endingOffsets": '{"T": {"broker-a": {"0": -2}}}'}, "must not be the earliest"),
    ({"startingTimestamp": "yesterday"}, "whole number"),
    ({"startingTimestamp": "1700000000"}, "startingTimestamp is 1700000000, which looks like seconds: give millisec"),
    ({"endingTimestamp": "1700000000"}, "endingTimestamp is 1700000000, which looks like seconds"),
    (
        {"endingOffsetsByTimestamp": '{"T": {"broker-a": {"0": 1700000000}}}'},
        "the time of T@broker-a:0 in endingOffsetsByTimestamp is 1700000000, which looks like seconds",
    ),
    ({"startingOffsetsByTimestampStrategy": "latest"}, "neither is given"),
    ({"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "later"}, "must be error or latest"),
    ({"failOnDataLoss": "yes"}, "must be true or false"),
    ({"minPartitions": "0"}, "from 1|between 1"),
    ({"pullBatchSize": "5000"}, "between 1 and 1024"),
    ({"maxOffsetsPerTrigger": "5"}, "for streams"),
    ({"tags": "a", "sql": "b = 1"}, "filter by one of them"),
    ({"tags": "||"}, "no tag between"),
    ({"sql": " "}, "is blank"),
    ({"consumerGroup": "a b"}, "characters besides"),
    ({"columns": "value, ofset"}, "did you mean offset"),
    ({"columns": "value, value"}, "twice"),
    ({"columns": "properties", "includeProperties": "false"}, "leave one of them out"),
    ({"includeProperties": "some"}, "which may also be all"),
    ({"valueFormat": "xml"}, "must be one of"),
    ({"valueFormat": "json"}, "needs valueSchema"),
    ({"valueSchema": "a INT"}, "is for valueFormat json"),
    ({"badValues": "null"}, "no value is bad"),
    ({"badValues": "skip"}, "fail or null"),
    ({"rocketmq.acessKey": "me"}, r"did you mean rocketmq\.accessKey"),
    ({"rocketmq.namesrv": "a:1"}, "use the option namesrv"),
    ({"rocketmq.instanceName": "x"}, "one of its own"),
    ({"rocketmq.requestTimeout": "soon"}, r"rocketmq\.requestTimeout cannot be 'soon'"),
    ({"rocketmq.secretKey": "hush"}, r"rocketmq\.secretKey needs the rocketmq\.accessKey that it belongs to"),
    ({"rocketmq.access_key": "hush"}, r"'rocketmq\.access_key' as rocketmq\.accessKey: plans and logs of Spark would"),
    ({"rocketmq.Access_Key": "hush"}, r"as rocketmq\.accessKey: plans"),
    ({"access_key": "hush"}, r"no option 'access_key': use rocketmq\.accessKey"),
    ({"namesrv": "no port"}, "no port"),
    ({"fetchOffset.numRetries": "-1"}, "whole number"),
    ({"rocketmq.unit_mode": "maybe"}, "must be true or false"),
]


@pytest.mark.parametrize(("options", "said"), BAD, ids=lambda value: str(value)[:60])
def test_options_that_cannot_be_used(options, said):
    with pytest.raises(ConfigError, match=said) as error:
        batch(**options)
    assert "hush" not in str(error.value)


def test_spellings_by_which_spark_recognizes_secrets_are_taken():
    for names in (("AccessKey", "secret_key", "security_token"), ("accesskey", "secretKey", "SecurityToken")):
        client = batch(**dict.fromkeys([f"rocketmq.{name}" for name in names], "x")).client
        assert (client.access_key, client.secret_key, client.security_token) == ("x", "x", "x")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "has no end"),
        ({"endingTimestamp": "5"}, "has no end"),
        ({"pushDownFilters": "true"}, "for batch reads"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is more than"),
        ({"maxTriggerDelay": "5m"}, "needs minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"}, "a time such as"),
    ],
)
def test_options_that_a_stream_cannot_use(options, said):
    with pytest.raises(ConfigError, match=said):
        stream(**options)


def test_without_anything_to_read():
    with pytest.raises(ConfigError, match="none is given"):
        batch_options({"namesrv": "a:1"})
    with pytest.raises(ConfigError, match="not a regular expression"):
        batch_options({"namesrv": "a:1", "subscribePattern": "("})
    with pytest.raises(ConfigError, match="names no queue"):
        batch_options({"namesrv": "a:1", "assign": "{}"})


def test_errors_do_not_show_secrets():
    with pytest.raises(ConfigError) as failed:
        batch(**{"rocketmq.secretKey": "hush-hush", "rocketmq.accessKey": ""})
    assert "hush" not in str(failed.value)


def test_schemas():
    assert schema_of(NEEDED).startswith("`keys` array<string>, `value` binary, `topic` string")
    assert schema_of({**NEEDED, "columns": "offset,value"}) == "`offset` bigint, `value` binary"
    assert "properties" not in schema_of({**NEEDED, "includeProperties": "false"})
    assert schema_of({**NEEDED, "columns": "value", "valueFormat": "string"}) == "`value` string"
    as_json = {**NEEDED, "columns": "value", "value_format": "json", "value_schema": "a INT, b STRING"}
    assert schema_of(as_json) == "`value` struct<a INT, b STRING>"
    assert schema_of({**as_json, "value_schema": "array<int>"}) == "`value` array<int>"
