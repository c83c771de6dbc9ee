"""Options: what they become, and what is said about each that cannot be used."""

from __future__ import annotations

import pickle

import pytest

from rocketpy.errors import ConfigError
from rocketpy.spark.option_names import folded
from rocketpy.spark.settings import GROUP
from rocketpy.spark.writer.entry import batch_writer, checked_write, stream_writer
from rocketpy.spark.writer.names import OPTIONS
from rocketpy.wire.compression import CompressionType


def test_defaults_are_those_of_the_sink(write):
    config = write().config
    assert (config.bad_rows, config.failed_sends, config.provenance, config.batch_size) == ("fail", "fail", True, 1024)
    assert (config.producer.group, config.producer.send_timeout) == (GROUP, 30.0)
    assert (config.mapping.topic, config.mapping.value_format, config.job_id) == ("Orders", "binary", None)


def test_every_option_reaches_the_sink(write):
    config = write(
        {"payload": "string"},
        columns='{"value": "payload", "tags": null}',
        valueFormat="JSON",
        badRows="skip",
        failedSends="count",
        provenance="false",
        batchSize="64",
        jobId="tonight",
        group="writers",
    ).config
    assert config.mapping.columns == {"value": "payload", "tags": None}
    assert (config.mapping.value_format, config.batch_size, config.job_id) == ("json", 64, "tonight")
    assert (config.bad_rows, config.failed_sends, config.provenance) == ("skip", "count", False)
    assert config.producer.group == "writers"


def test_case_and_underscores_do_not_count(write):
    config = write(value_format="msgpack", BADROWS="skip", job_id="x").config
    assert (config.mapping.value_format, config.bad_rows, config.job_id) == ("msgpack", "skip", "x")
    assert len({folded(name) for name in OPTIONS}) == len(OPTIONS)


def test_settings_of_the_producer(write):
    producer = write(
        **{
            "rocketmq.accesskey": "me",
            "rocketmq.secret_key": "hush",
            "rocketmq.sendTimeout": "1.5",
            "rocketmq.maxMessageSize": "4096",
            "rocketmq.compressType": "lz4",
            "rocketmq.sendLatencyEnable": "true",
            "rocketmq.exitTimeout": "2",
            "rocketmq.retryResponseCodes": "[1, 14]",
            "rocketmq.addressMap": '{"a:1": "b:1"}',
        }
    ).config.producer
    assert (producer.access_key, producer.secret_key, producer.send_timeout) == ("me", "hush", 1.5)
    assert (producer.max_message_size, producer.compress_type) == (4096, CompressionType.LZ4)
    assert (producer.send_latency_enable, producer.exit_timeout) == (True, 2.0)
    assert (producer.retry_response_codes, producer.address_map) == (frozenset({1, 14}), {"a:1": "b:1"})


def test_name_servers_come_from_the_environment(write, monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "b:9876")
    assert write(namesrv=None).config.producer.namesrv == ("b:9876",)
    monkeypatch.delenv("NAMESRV_ADDR")
    with pytest.raises(ConfigError, match=r"needs namesrv.*NAMESRV_ADDR"):
        write(namesrv=None)


def test_a_column_of_strings_is_sent_as_text_unless_told_otherwise(write):
    assert write({"value": "string"}).config.mapping.value_format == "string"
    assert write(
        {"value": "binary", "text": "varchar(9)"}, columns='{"value": "text"}'
    ).config.mapping.value_format == ("string")


def test_only_streams_have_checkpoints(write):
    given = {"checkpointLocation": "/x", "queryName": "orders"}
    assert write(streamed=True, **given).streamed
    with pytest.raises(ConfigError, match="no option 'checkpointLocation': it is for streams"):
        write(**given)


def test_a_batch_write_has_a_name_of_its_own_in_the_provenance(write):
    assert write().run != write().run
    assert write(provenance="false").run is None
    assert write(provenance="true", jobId="tonight").run is None
    assert write(provenance="true", streamed=True).run is None


def test_they_pickle_and_hide_secrets(write):
    secrets = {"rocketmq.accessKey": "me-myself", "rocketmq.secretKey": "hush-hush", "rocketmq.securityToken": "tok-en"}
    made = write(**secrets)
    assert pickle.loads(pickle.dumps(made)) == made
    assert not any(secret in repr(made) for secret in secrets.values())


BAD = [
    ({"topik": "T"}, "the RocketMQ writer has no option 'topik': did you mean topic"),
    ({"topic": "A B"}, "characters besides"),
    ({"topic": "SCHEDULE_TOPIC_XXXX"}, "cannot send to the topic"),
    ({"subscribe": "T"}, "an option for reading; to write, give topic"),
    ({"includeHeaders": "true"}, "column properties"),
    ({"kafka.bootstrap.servers": "a:1"}, "use namesrv"),
    ({"kafka.acks": "all"}, "prefix rocketmq"),
    ({"producerGroup": "g"}, "use group"),
    ({"path": "/x"}, "nothing to save"),
    ({"keys": "order_id"}, "with the option columns"),
    ({"value_format": "json", "valueFormat": "json"}, "given twice"),
    ({"columns": "payload"}, "is not JSON"),
    ({"columns": '["payload"]'}, "must be JSON such as"),
    ({"columns": '{"value": 1}'}, "give its name, or null"),
    ({"columns": '{"value": "a", "value": "b"}'}, "names value twice"),
    ({"columns": '{"vlaue": "a"}'}, "no part 'vlaue'"),
    ({"columns": '{"value": null}'}, "needs a value"),
    ({"columns": '{"keys": "*"}'}, "whole row"),
    ({"columns": '{"value": "*"}'}, 'value_format="json"'),
    ({"valueFormat": "xml"}, "valueFormat must be binary, string, json, msgpack or avro"),
    ({"badRows": "ignore"}, "badRows must be fail or skip"),
    ({"failedSends": "skip"}, "failedSends must be fail or count"),
    ({"provenance": "yes"}, "must be true or false"),
    ({"batchSize": "0"}, "between 1 and 65535"),
    ({"jobId": " "}, "job_id must be printable"),
    ({"group": "a b"}, "characters besides"),
    ({"rocketmq.acessKey": "me"}, r"did you mean rocketmq\.accessKey"),
    ({"rocketmq.namesrv": "a:1"}, "use the option namesrv"),
    ({"rocketmq.producerGroup": "g"}, "use the option group"),
    ({"rocketmq.serializer": "json"}, "use the option valueFormat"),
    ({"rocketmq.beforeSend": "f"}, "rocketpy.spark.sink"),
    ({"rocketmq.instanceName": "x"}, "one of its own"),
    ({"rocketmq.sendTimeout": "soon"}, r"rocketmq\.sendTimeout cannot be 'soon'"),
    ({"rocketmq.maxMessageSize": "1.5"}, "maxMessageSize cannot be '1.5'"),
    ({"rocketmq.compressType": "gzip"}, "compressType|compress_type"),
    ({"rocketmq.retryResponseCodes": "14"}, "retryResponseCodes cannot be '14'"),
    ({"rocketmq.addressMap": "{"}, "addressMap cannot be '{'"),
    ({"rocketmq.secretKey": "hush"}, r"rocketmq\.secretKey needs the rocketmq\.accessKey that it belongs to"),
    ({"rocketmq.access_key": "hush"}, r"'rocketmq\.access_key' as rocketmq\.accessKey: plans and logs of Spark would"),
    ({"rocketmq.ACCESS_KEY": "hush"}, r"as rocketmq\.accessKey: plans"),
    ({"access_key": "hush"}, r"no option 'access_key': use rocketmq\.accessKey"),
    ({"namesrv": "no port"}, "no port"),
]


@pytest.mark.parametrize(("options", "said"), BAD)
def test_what_cannot_be_used(write, options, said):
    with pytest.raises(ConfigError, match=said) as error:
        write(**options)
    assert "hush" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "said"), [(batch_writer, r'mode\("append"\)'), (stream_writer, r'outputMode\("append"\)')]
)
def test_a_topic_is_not_overwritten(make, said, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "rocketpy.spark.writer.spark_classes", None)
    with pytest.raises(ConfigError, match=said):
        make({}, None, overwrite=True)


def test_errors_come_before_anything_is_sent():
    with pytest.raises(ConfigError, match="topic is missing"):
        checked_write({"namesrv": "a:1"}, {"fields": [{"name": "value", "type": "binary"}]}, streamed=False)
