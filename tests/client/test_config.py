"""Settings: defaults are Java's, values are checked, configs pickle and derive."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from datetime import datetime

import attrs
import pytest

import rocketpy.config
from rocketpy.config import ClientConfig, LatencyTable, ProducerConfig, PushConsumerConfig
from rocketpy.config.observed import ObservedConfig
from rocketpy.config.tracing import TracedConfig
from rocketpy.consumer.rebalancing.strategies import AllocateAveragely
from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from rocketpy.wire.codes import ResponseCode, SerializeType
from rocketpy.wire.compression import CompressionType
from rocketpy.wire.enums import ConsumeFromWhere, MessageModel


async def _answers_late(request: object) -> list[MessageQueue]:
    return []


JAVA_DEFAULTS = {
    "enableTrace": False,
    "unitMode": False,
    "pollNameServerInterval": 30_000,
    "heartbeatBrokerInterval": 30_000,
    "persistConsumerOffsetInterval": 5_000,
    "connectTimeoutMillis": 3_000,
    "mqClientApiTimeout": 3_000,
    "clientChannelMaxIdleTimeSeconds": 120,
    "sendMsgTimeout": 3_000,
    "retryTimesWhenSendFailed": 2,
    "retryTimesWhenSendAsyncFailed": 2,
    "retryAnotherBrokerWhenNotStoreOK": False,
    "compressMsgBodyOverHowmuch": 4096,
    "compressLevel": 5,
    "suspendCurrentQueueTimeMillis": 1000,
    "compressType": CompressionType.ZLIB,
    "maxMessageSize": 4_194_304,
    "defaultTopicQueueNums": 4,
    "createTopicKey": "TBW102",
    "backPressureForAsyncSendNum": 1024,
    "backPressureForAsyncSendSize": 104_857_600,
    "sendLatencyEnable": False,
    "startDetectorEnable": False,
    "detectInterval": 2000,
    "detectTimeout": 200,
    "messageQueueListener": None,
    "offsetStore": None,
    "messageModel": MessageModel.CLUSTERING,
    "consumeFromWhere": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    "waitInterval": 20_000,
    "consumeThreadMax": 20,
    "consumeMessageBatchMaxSize": 1,
    "consumeTimeout": 15,
    "consumeConcurrentlyMaxSpan": 2000,
    "pullThresholdForQueue": 1000,
    "pullThresholdSizeForQueue": 100,
    "pullThresholdForTopic": -1,
    "pullThresholdSizeForTopic": -1,
    "pullBatchSize": 32,
    "pullInterval": 0,
    "postSubscriptionWhenPull": False,
    "BROKER_SUSPEND_MAX_TIME_MILLIS": 15_000,
    "CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND": 30_000,
    "pullTimeDelayMillsWhenException": 3_000,
    "maxReconsumeTimes": -1,
    "lockInterval": 20_000,
    "lockMaxLiveTime": 30_000,
}
# Other than Java on purpose, or without a plain default there.
OWN_DEFAULTS = {
    "namesrvAddr",
    "clientIP",
    "instanceName",
    "unitName",
    "producerGroup",
    "consumerGroup",
    "consumeTimestamp",
    "allocateMessageQueueStrategy",
    "retryResponseCodes",
    "sendMsgMaxTimeoutPerRequest",
    "awaitTerminationMillisWhenShutdown",
    "batchMaxBytes",
    "batchMaxDelayMs",
    "totalBatchMaxBytes",
    "traceTopic",
    "traceMsgBatchNum",
}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)


def settings() -> list[attrs.Attribute]:
    return [*attrs.fields(ProducerConfig), *attrs.fields(PushConsumerConfig)]


@pytest.mark.parametrize("field", settings(), ids=lambda field: field.name)
def test_every_setting_names_its_java_key_and_has_its_default(field: attrs.Attribute) -> None:
    key = field.metadata["java"]
    config = ProducerConfig(group="g") if hasattr(ProducerConfig, field.name) else PushConsumerConfig(group="g")
    value = getattr(config, field.name)
    if key is None or key in OWN_DEFAULTS:
        assert key not in JAVA_DEFAULTS
        return
    scale = field.metadata.get("scale")
    assert (value * scale if scale else value) == JAVA_DEFAULTS[key]


def test_retry_response_codes_are_javas() -> None:
    assert ProducerConfig(group="g").retry_response_codes == {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a:9876", ("a:9876",)),
        ("a:9876;b:9877", ("a:9876", "b:9877")),
        (" a:9876 ; b:9876 ;", ("a:9876", "b:9876")),
        (["a:9876", "b:9876", "a:9876"], ("a:9876", "b:9876")),
        ("[::1]:9876;127.0.0.1:9876", ("[::1]:9876", "127.0.0.1:9876")),
        (None, ()),
        ("", ()),
    ],
)
def test_name_servers_are_text_or_a_list(given: object, expected: tuple[str, ...]) -> None:
    assert ClientConfig(namesrv=given).namesrv == expected


@pytest.mark.parametrize("given", ["a", "a:", ":9876", "a:0", "a:70000", "a:9876,b:9876", "[::1:9876", ["a:1", "b"]])
def test_name_servers_without_a_host_or_port_are_refused(given: object) -> None:
    with pytest.raises(ConfigError, match="address"):
        ClientConfig(namesrv=given)


def test_the_environment_names_the_name_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "c:9876;d:9876")
    assert ClientConfig().namesrv == ("c:9876", "d:9876")
    assert ClientConfig(namesrv=None).namesrv == ("c:9876", "d:9876")
    assert ClientConfig(namesrv="a:1").namesrv == ("a:1",)
    assert ClientConfig(namesrv="").namesrv == ()


def test_name_servers_of_none_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "c:9876")
    assert ProducerConfig.of(None, group="g", namesrv=None).namesrv == ("c:9876",)
    assert ProducerConfig.of(ClientConfig(namesrv="a:1"), group="g", namesrv=None).namesrv == ("a:1",)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("send_timeout", 3000, "seconds, not in milliseconds"),
        ("send_timeout", 0, "between"),
        ("send_timeout", "3", "must be seconds or a timedelta, not '3'"),
        ("send_timeout", float("nan"), "between"),
        ("heartbeat_broker_interval", 30_000, "seconds, not in milliseconds"),
        ("retry_times_when_send_failed", -1, "between"),
        ("retry_times_when_send_failed", 1.5, "must be a whole number, not 1.5"),
        ("retry_times_when_send_failed", True, "must be a whole number"),
        ("max_message_size", 0, "between"),
        ("group", "", "blank"),
        ("group", "g" * 121, "120"),
        ("group", "a/b", "characters"),
        ("create_topic_key", "../x", "create_topic_key"),
        ("instance_name", "a@b", "client id"),
        ("client_ip", "", "client id"),
        ("client_ip", 5, "client id"),
        ("instance_name", 1, "client id"),
        ("unit_name", b"x", "client id"),
        ("address_map", "10.0.0.5:10911", "address_map must be a dict"),
        ("address_map", {"10.0.0.5": 5}, "address_map must be a dict"),
        ("retry_response_codes", 1, "must be a list of numbers"),
        ("retry_response_codes", "12", "must be a list of numbers"),
        ("retry_response_codes", [None], "must be a list of numbers"),
        ("latency_table", "6.x", "4.x"),
        ("send_latency_enable", "false", "must be True or False, not 'false'"),
        ("start_detector_enable", 1, "must be True or False, not 1"),
        ("detect_interval", 2000, "not in milliseconds"),
        ("detect_interval", 0, "between 0.01"),
        ("detect_timeout", 2000, "not in milliseconds"),
        ("serialize_type", "XML", "'json' or 'rocketmq', or a member of SerializeType, not "),
        ("serialize_type", 1, "'json' or 'rocketmq', or a member of SerializeType, not "),
        ("compress_type", "GZIP", "'zlib', 'lz4' or 'zstd', or a member of CompressionType, not 'GZIP'"),
        ("compress_type", 3, "'zlib', 'lz4' or 'zstd'"),
    ],
)
def test_values_that_cannot_be_used_are_refused_with_advice(field: str, value: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ProducerConfig(**{"group": "g", field: value})


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("consume_timestamp", "yesterday", "yyyyMMddHHmmss"),
        ("message_model", "shared", "'clustering' or 'broadcasting', or a member of MessageModel, not 'shared'"),
        ("pull_threshold_for_topic", 0, "or -1, the default, not 0"),
        ("pull_batch_size", 1025, "between"),
        ("allocate_strategy", "by_dice", "averagely, by_circle, consistent_hash"),
        ("allocate_strategy", 7, "a function, not 7"),
        ("allocate_strategy", AllocateAveragely, "write AllocateAveragely()"),
        ("allocate_strategy", _answers_late, "a plain function"),
        ("broker_suspend_max_time", 30.0, "longer than"),
        ("consume_timestamp", 1_700_000_000, "consume_timestamp is 1700000000, which looks like seconds: give mill"),
        ("consume_timestamp", 20240131235959, "give local yyyyMMddHHmmss as a str"),
        ("consume_timestamp", datetime(2024, 1, 31, 12), "must have a time zone"),  # noqa: DTZ001
        ("consume_timestamp", True, "milliseconds since 1970, or a datetime"),
        ("consume_from_where", "begin", "be 'earliest', 'latest' or 'timestamp', or a member of ConsumeFromWhere, not"),
        ("consume_from_where", 0, "'earliest', 'latest' or 'timestamp'"),
        ("max_reconsume_times", -2, "or -1, the default, not -2"),
        ("before_consume", lambda: None, "a function of the message .*: too many positional arguments"),
        (
            "after_consume",
            lambda message: None,
            "what the listener returned or raised: .*: too many positional",
        ),
        ("on_assigned", lambda: None, "a function of a tuple of queues: .*: too many positional arguments"),
        ("on_revoked", lambda queues, why: None, "a function of a tuple of queues: .*: missing a required argument"),
    ],
)
def test_consumer_settings_are_checked(field: str, value: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        PushConsumerConfig(**{"group": "g", field: value})


def test_configs_are_frozen_evolve_with_checks_and_compare() -> None:
    config = ProducerConfig(group="g", namesrv="a:1")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        config.group = "h"
    assert attrs.evolve(config, send_timeout=5.0).send_timeout == 5.0
    assert attrs.evolve(config) == config
    assert hash(attrs.evolve(config)) == hash(config)
    with pytest.raises(ConfigError):
        attrs.evolve(config, send_timeout=-1)


@pytest.mark.parametrize(
    "config",
    [
        ClientConfig(namesrv="a:1;b:2", address_map={"10.0.0.1": "localhost"}),
        ProducerConfig(group="g", latency_table="5.x"),
        PushConsumerConfig(group="g", consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET),
    ],
    ids=lambda config: type(config).__name__,
)
def test_threat_L12_configs_pickle(config: ClientConfig) -> None:
    assert pickle.loads(pickle.dumps(config)) == config


def test_a_config_derives_from_that_of_another_role() -> None:
    producer = ProducerConfig(group="p", namesrv="a:1", request_timeout=7.0)
    consumer = PushConsumerConfig.of(producer, group="c", pull_batch_size=16)
    assert (consumer.namesrv, consumer.request_timeout, consumer.group) == (("a:1",), 7.0, "c")
    assert ClientConfig.of(producer) == ClientConfig(namesrv="a:1", request_timeout=7.0)
    assert ProducerConfig.of(None, group="p").group == "p"
    with pytest.raises(ConfigError, match="no setting retries"):
        ProducerConfig.of(producer, retries=3)
    with pytest.raises(ConfigError, match="needs group"):
        ProducerConfig.of(ClientConfig(namesrv="a:1"))


def test_a_latency_table_has_rising_steps_and_equal_columns() -> None:
    with pytest.raises(ConfigError, match="same number"):
        LatencyTable(latency_max_ms=(50, 100), not_available_ms=(0,))
    with pytest.raises(ConfigError, match="rise"):
        LatencyTable(latency_max_ms=(100, 50), not_available_ms=(0, 0))
    with pytest.raises(ConfigError, match="negative"):
        LatencyTable(latency_max_ms=(50, 100), not_available_ms=(0, -1))
    with pytest.raises(ConfigError, match="at least one"):
        LatencyTable(latency_max_ms=(), not_available_ms=())
    with pytest.raises(ConfigError, match="more than a day"):
        LatencyTable(latency_max_ms=(50,), not_available_ms=(10**9,))
    with pytest.raises(ConfigError, match="isolation_ms"):
        LatencyTable(latency_max_ms=(50,), not_available_ms=(0,), isolation_ms=-1)
    for wrong in (50, "50", None, ("50",), (0.5,), (True,)):
        with pytest.raises(ConfigError, match="a latency table must be a"):
            LatencyTable(latency_max_ms=wrong, not_available_ms=(0,))
    own = LatencyTable(latency_max_ms=[20, 40], not_available_ms=[0, 500], isolation_ms=40)
    assert [own.not_available_for(latency) for latency in (0, 39.9, 40, 10_000)] == [0, 0, 500, 500]
    assert ProducerConfig(group="g", latency_table=own).latency_table is own
    assert ProducerConfig(group="g", latency_table="5.x").latency_table is LatencyTable.RELEASE_5


@pytest.mark.parametrize("value", [9876, [9876], ("127.0.0.1", 9876), b"127.0.0.1:9876", [None]])
def test_name_servers_of_another_type_than_text_are_refused(value):
    with pytest.raises(ConfigError, match="namesrv must be like 'a:9876;b:9876', or a list"):
        ClientConfig(namesrv=value)


@pytest.mark.parametrize("value", ["http://127.0.0.1:9876", "127.0.0.1:9876,127.0.0.1:9877"])
def test_what_is_mistaken_for_a_list_or_a_url_is_told_how_addresses_are_written(value):
    with pytest.raises(ConfigError, match="write no scheme, several joined by ';'"):
        ClientConfig(namesrv=value)


def test_names_and_configs_of_another_type_are_refused_as_that():
    with pytest.raises(ConfigError, match="the group must be a str, not 5"):
        ProducerConfig(group=5, namesrv="a:1")
    with pytest.raises(ConfigError, match="config must be a config such as ProducerConfig, not "):
        ProducerConfig.of({"namesrv": "a:1"}, group="g")


def test_an_enumeration_may_be_given_by_the_name_of_its_member():
    config = PushConsumerConfig(group="g", message_model="BROADCASTING", consume_from_where="CONSUME_FROM_FIRST_OFFSET")
    assert config.message_model is MessageModel.BROADCASTING
    assert config.consume_from_where is ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    for wrong in ("broadcast", 1, None):
        with pytest.raises(
            ConfigError, match="must be 'clustering' or 'broadcasting', or a member of MessageModel, not"
        ):
            PushConsumerConfig(group="g", message_model=wrong)


def _configs(base: type[ClientConfig] = ClientConfig) -> Iterator[type[ClientConfig]]:
    yield base
    for each in base.__subclasses__():
        yield from _configs(each)


def test_every_setting_that_is_a_flag_takes_true_and_false_only() -> None:
    """Text such as "false", which comes from an environment or a command line, would count as true."""
    for module in pkgutil.iter_modules(rocketpy.config.__path__):
        importlib.import_module(f"rocketpy.config.{module.name}")
    tried = set()
    for config in _configs():
        needed = {} if config in (ClientConfig, ObservedConfig, TracedConfig) else {"group": "g"}
        for field in attrs.fields(config):
            if "bool" not in str(field.type):
                continue
            tried.add(field.name)
            for wrong in ("false", "no", 1, 0, None):
                with pytest.raises(ConfigError, match=f"^{field.name} must be True or False, not {wrong!r}$"):
                    config(**needed, **{field.name: wrong})
    assert tried >= {"unit_mode", "enable_msg_trace", "send_latency_enable", "orderly", "auto_commit"}


@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("earliest", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET),
        ("First", ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET),
        ("LATEST", ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET),
        ("last", ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET),
        ("timestamp", ConsumeFromWhere.CONSUME_FROM_TIMESTAMP),
        ("consume_from_timestamp", ConsumeFromWhere.CONSUME_FROM_TIMESTAMP),
    ],
)
def test_where_to_start_has_short_names(name: str, member: ConsumeFromWhere) -> None:
    assert PushConsumerConfig(group="g", consume_from_where=name).consume_from_where is member


def test_names_of_members_may_be_written_in_any_case() -> None:
    config = PushConsumerConfig(group="g", message_model="broadcasting", serialize_type="rocketMQ")
    assert config.message_model is MessageModel.BROADCASTING
    assert config.serialize_type is SerializeType.ROCKETMQ
    assert ClientConfig(serialize_type="json").serialize_type is SerializeType.JSON
    assert ProducerConfig(group="g", compress_type="Lz4").compress_type is CompressionType.LZ4
    assert pickle.loads(pickle.dumps(config)) == config
