"""Settings of clients: frozen, checked once when they are made, passed whole. They pickle; clients do not.

Every field says in its metadata which setting of Java it is (`java`, None for one of our own) and by how much the unit
differs (`scale`): Java counts in milliseconds, we count in seconds. Change a config with `attrs.evolve`. Plays the part
of ClientConfig and of the fields of DefaultMQProducer and DefaultMQPushConsumer.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, Self

import attrs

from rocketpy.errors import ConfigError
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.enums import ConsumeFromWhere, MessageModel
from rocketpy.wire.hosts import format_address, parse_address
from rocketpy.wire.names import check_group, check_topic

__all__ = ["ClientConfig", "LatencyTable", "ProducerConfig", "PushConsumerConfig", "parse_addresses"]

_MIB = 1024 * 1024
_Check = Callable[[Any, "attrs.Attribute[Any]", Any], None]


# --- checks ------------------------------------------------------------------------------------------


def _number(name: str, value: object, kinds: tuple[type, ...]) -> None:
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise ConfigError(f"{name} must be a number, not {value!r}")


def _seconds(low: float, high: float) -> _Check:
    """Within bounds; a value given in milliseconds, as Java counts, falls out of them and is told so."""

    def check(_: object, field: attrs.Attribute[Any], value: float) -> None:
        _number(field.name, value, (int, float))
        if not low <= value <= high:
            hint = "; it counts in seconds, not in milliseconds" if value > high else ""
            raise ConfigError(f"{field.name} must be between {low:g} and {high:g} seconds, not {value!r}{hint}")

    return check


def _whole(low: int, high: int = 2**31 - 1, *, off: int | None = None) -> _Check:
    """A whole number within bounds, or `off`, which switches the setting off."""

    def check(_: object, field: attrs.Attribute[Any], value: int) -> None:
        _number(field.name, value, (int,))
        if not low <= value <= high and value != off:
            switch = f", or {off} for off" if off is not None else ""
            raise ConfigError(f"{field.name} must be between {low} and {high}{switch}, not {value!r}")

    return check


def _member(kind: type[Any]) -> _Check:
    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, kind):
            raise ConfigError(f"{field.name} must be a {kind.__name__}, not {value!r}")

    return check


def _one_of(*choices: str) -> _Check:
    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if value not in choices:
            raise ConfigError(f"{field.name} must be one of {', '.join(choices)}, not {value!r}")

    return check


def _group(_: object, field: attrs.Attribute[Any], value: str) -> None:
    check_group(value)


def _topic(_: object, field: attrs.Attribute[Any], value: str) -> None:
    check_topic(value, what=field.name)


def _no_separator(_: object, field: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None and (not value or not value.isprintable() or "@" in value):
        raise ConfigError(f"{field.name} becomes a part of the client id: printable text without @, not {value!r}")


def parse_addresses(value: str | Iterable[str] | None) -> tuple[str, ...]:
    """Addresses from "a:9876;b:9876" or from a list of them; IPv6 in brackets. Each counts once.

    Raises:
        ConfigError: one of them is not a "host:port".
    """
    parts = value.split(";") if isinstance(value, str) else [] if value is None else list(value)
    stripped = [part.strip() for part in parts]
    return tuple(dict.fromkeys(format_address(*parse_address(part)) for part in stripped if part))


def _address_map(value: Mapping[str, str] | None) -> dict[str, str]:
    return dict(value or {})


# --- how long a slow broker is left alone --------------------------------------------------------------


def _steps(value: Iterable[int]) -> tuple[int, ...]:
    return tuple(value)


@attrs.frozen(kw_only=True)
class LatencyTable:
    """For how long a broker is passed over after a send that took a given time. In milliseconds, as in Java."""

    latency_max_ms: tuple[int, ...] = attrs.field(converter=_steps)
    """Lower ends of the steps, rising (Java: latencyMax)."""
    not_available_ms: tuple[int, ...] = attrs.field(converter=_steps)
    """What each step costs (Java: notAvailableDuration)."""
    isolation_ms: int = attrs.field(default=30_000, validator=_whole(0))
    """The latency that a send which failed counts as."""

    RELEASE_4: ClassVar[LatencyTable]
    """The table of 4.x, our default."""
    RELEASE_5: ClassVar[LatencyTable]
    """The table of 5.x, with much shorter times."""

    def __attrs_post_init__(self) -> None:
        """Both columns belong together."""
        steps = self.latency_max_ms
        if len(steps) != len(self.not_available_ms) or not steps:
            raise ConfigError("latency_max_ms and not_available_ms must have the same number of steps, at least one")
        if list(steps) != sorted(set(steps)) or steps[0] < 0 or min(self.not_available_ms) < 0:
            raise ConfigError(f"latency_max_ms must rise, and nothing may be negative: {self}")

    def not_available_for(self, latency_ms: float) -> int:
        """Milliseconds for which a broker is passed over after a send of that latency."""
        step = bisect_right(self.latency_max_ms, latency_ms) - 1
        return self.not_available_ms[step] if step >= 0 else 0


LatencyTable.RELEASE_4 = LatencyTable(
    latency_max_ms=(50, 100, 550, 1000, 2000, 3000, 15_000),
    not_available_ms=(0, 0, 30_000, 60_000, 120_000, 180_000, 600_000),
    isolation_ms=30_000,
)
LatencyTable.RELEASE_5 = LatencyTable(
    latency_max_ms=(50, 100, 550, 1800, 3000, 5000, 15_000),
    not_available_ms=(0, 0, 2000, 5000, 6000, 10_000, 30_000),
    isolation_ms=10_000,
)
_PROFILES = {"4.x": LatencyTable.RELEASE_4, "5.x": LatencyTable.RELEASE_5}


def _latency_table(value: LatencyTable | str) -> LatencyTable:
    table = _PROFILES.get(value) if isinstance(value, str) else value
    if not isinstance(table, LatencyTable):
        raise ConfigError(f"latency_table must be a LatencyTable, '4.x' or '5.x', not {value!r}")
    return table


# --- what all roles share ------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ClientConfig:
    """How a client finds brokers and keeps in touch with them."""

    namesrv: tuple[str, ...] = attrs.field(
        factory=lambda: os.environ.get("NAMESRV_ADDR"), converter=parse_addresses, metadata={"java": "namesrvAddr"}
    )
    """Name servers: "a:9876;b:9876" or a list. Left out, the environment variable NAMESRV_ADDR counts."""
    client_ip: str | None = attrs.field(default=None, validator=_no_separator, metadata={"java": "clientIP"})
    """Address of this host in the client id. Left out, the one from which this host reaches others."""
    instance_name: str | None = attrs.field(default=None, validator=_no_separator, metadata={"java": "instanceName"})
    """Makes the client id "ip@instance_name". It must then be unique among all clients, and that is up to you; left
    out, the id is made of process, time and chance, and unique by itself."""
    unit_name: str | None = attrs.field(default=None, validator=_no_separator, metadata={"java": "unitName"})
    """Last part of the client id, for installations in several units."""
    address_map: dict[str, str] = attrs.field(factory=dict, converter=_address_map, hash=False, metadata={"java": None})
    """Rewrites broker addresses that this host cannot reach, as behind Docker or a tunnel: "host:port" to "host:port",
    or "host" to "host"."""
    poll_name_server_interval: float = attrs.field(
        default=30.0, validator=_seconds(0.01, 3600), metadata={"java": "pollNameServerInterval", "scale": 1000}
    )
    """Seconds between two looks at the routes of the topics in use."""
    heartbeat_broker_interval: float = attrs.field(
        default=30.0, validator=_seconds(0.01, 110), metadata={"java": "heartbeatBrokerInterval", "scale": 1000}
    )
    """Seconds between heartbeats. A broker forgets a client that was silent for 120."""
    persist_consumer_offset_interval: float = attrs.field(
        default=5.0, validator=_seconds(0.01, 3600), metadata={"java": "persistConsumerOffsetInterval", "scale": 1000}
    )
    """Seconds between two commits of consumed offsets."""
    connect_timeout: float = attrs.field(
        default=3.0, validator=_seconds(0.001, 600), metadata={"java": "connectTimeoutMillis", "scale": 1000}
    )
    """Seconds that opening a connection may take."""
    request_timeout: float = attrs.field(
        default=3.0, validator=_seconds(0.001, 600), metadata={"java": "mqClientApiTimeout", "scale": 1000}
    )
    """Seconds that a request of the client's own may take: routes, heartbeats, offsets."""
    idle_timeout: float = attrs.field(
        default=120.0, validator=_seconds(1, 3600), metadata={"java": "clientChannelMaxIdleTimeSeconds"}
    )
    """Seconds after which a connection that nobody uses is closed."""
    close_timeout: float = attrs.field(default=3.0, validator=_seconds(0.001, 600), metadata={"java": None})
    """Seconds that saying goodbye to the brokers may take when a client closes."""

    @classmethod
    def of(cls, config: ClientConfig | None = None, **fields: Any) -> Self:
        """A config of this class from another one, with some fields changed or added.

        Fields that this class does not have (those of another role) are left behind.

        Raises:
            ConfigError: a field does not exist, is missing or has a value that cannot be used.
        """
        known = {field.name for field in attrs.fields(cls)}
        if unknown := set(fields) - known:
            raise ConfigError(f"{cls.__name__} has no setting {', '.join(sorted(unknown))}")
        base = {} if config is None else attrs.asdict(config, recurse=False)
        values = {name: value for name, value in base.items() if name in known} | fields
        if missing := {field.name for field in attrs.fields(cls) if field.default is attrs.NOTHING} - set(values):
            raise ConfigError(f"{cls.__name__} needs {', '.join(sorted(missing))}")
        return cls(**values)


def _codes(value: Iterable[int]) -> frozenset[int]:
    return frozenset(int(code) for code in value)


# --- producers ------------------------------------------------------------------------------------------

_RETRY_RESPONSE_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    }
)


@attrs.frozen(kw_only=True)
class ProducerConfig(ClientConfig):
    """How a producer sends."""

    group: str = attrs.field(validator=_group, metadata={"java": "producerGroup"})
    """Name that the producers of one purpose share."""
    send_timeout: float = attrs.field(
        default=3.0, validator=_seconds(0.001, 600), metadata={"java": "sendMsgTimeout", "scale": 1000}
    )
    """Seconds that a send may take, all its retries together."""
    retry_times_when_send_failed: int = attrs.field(
        default=2, validator=_whole(0, 100), metadata={"java": "retryTimesWhenSendFailed"}
    )
    """How often `send` tries again after the first time."""
    retry_times_when_send_async_failed: int = attrs.field(
        default=2, validator=_whole(0, 100), metadata={"java": "retryTimesWhenSendAsyncFailed"}
    )
    """How often `send_soon` tries again after the first time."""
    retry_another_broker_when_not_store_ok: bool = attrs.field(
        default=False, metadata={"java": "retryAnotherBrokerWhenNotStoreOK"}
    )
    """Whether a message that was stored, but not yet flushed or copied, is sent again. It may then arrive twice."""
    retry_response_codes: frozenset[int] = attrs.field(
        default=_RETRY_RESPONSE_CODES, converter=_codes, metadata={"java": "retryResponseCodes"}
    )
    """Answers of a broker after which another one is tried."""
    compress_body_over: int = attrs.field(
        default=4096, validator=_whole(0), metadata={"java": "compressMsgBodyOverHowmuch"}
    )
    """Bodies of this many bytes or more are compressed."""
    compress_level: int = attrs.field(default=5, validator=_whole(0, 9), metadata={"java": "compressLevel"})
    """How hard to compress."""
    max_message_size: int = attrs.field(
        default=4 * _MIB, validator=_whole(1, 16 * _MIB), metadata={"java": "maxMessageSize"}
    )
    """Bytes that a body may have."""
    default_topic_queue_nums: int = attrs.field(
        default=4, validator=_whole(1, 65_536), metadata={"java": "defaultTopicQueueNums"}
    )
    """Queues of a topic that is created by sending to it."""
    create_topic_key: str = attrs.field(default="TBW102", validator=_topic, metadata={"java": "createTopicKey"})
    """The topic whose brokers create topics by themselves."""
    back_pressure_for_async_send_num: int = attrs.field(
        default=1024, validator=_whole(1, 65_535), metadata={"java": "backPressureForAsyncSendNum"}
    )
    """Messages that `send_soon` lets be under way before it waits."""
    back_pressure_for_async_send_size: int = attrs.field(
        default=100 * _MIB, validator=_whole(1), metadata={"java": "backPressureForAsyncSendSize"}
    )
    """Bytes that `send_soon` lets be under way before it waits."""
    send_latency_enable: bool = attrs.field(default=False, metadata={"java": "sendLatencyEnable"})
    """Whether brokers that were slow or failed are passed over for a while."""
    latency_table: LatencyTable = attrs.field(
        default=LatencyTable.RELEASE_4, converter=_latency_table, metadata={"java": None}
    )
    """For how long. "4.x" and "5.x" name the tables of those releases."""


# --- push consumers -------------------------------------------------------------------------------------


def _consume_timestamp(_: object, field: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None and not (value.isascii() and value.isdigit() and len(value) == 14):
        raise ConfigError(f"{field.name} must look like 20240131235959 (yyyyMMddHHmmss), not {value!r}")


@attrs.frozen(kw_only=True)
class PushConsumerConfig(ClientConfig):
    """How a push consumer pulls and consumes."""

    group: str = attrs.field(validator=_group, metadata={"java": "consumerGroup"})
    """Name that the consumers of one purpose share; they share the messages too."""
    message_model: MessageModel = attrs.field(
        default=MessageModel.CLUSTERING, validator=_member(MessageModel), metadata={"java": "messageModel"}
    )
    """Whether the group shares the messages or every consumer gets all."""
    consume_from_where: ConsumeFromWhere = attrs.field(
        default=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        validator=_member(ConsumeFromWhere),
        metadata={"java": "consumeFromWhere"},
    )
    """Where a group begins in a queue for which it has no offset yet."""
    consume_timestamp: str | None = attrs.field(
        default=None, validator=_consume_timestamp, metadata={"java": "consumeTimestamp"}
    )
    """Local time yyyyMMddHHmmss for CONSUME_FROM_TIMESTAMP; left out, half an hour before the start."""
    allocate_strategy: Literal["averagely", "by_circle"] = attrs.field(
        default="averagely",
        validator=_one_of("averagely", "by_circle"),
        metadata={"java": "allocateMessageQueueStrategy"},
    )
    """How the queues of a topic are shared out. All consumers of a group must say the same."""
    rebalance_interval: float = attrs.field(
        default=20.0, validator=_seconds(0.01, 3600), metadata={"java": "waitInterval", "scale": 1000}
    )
    """Seconds between two looks at who consumes which queue; changes are acted upon at once."""
    consume_thread_max: int = attrs.field(default=20, validator=_whole(1, 1000), metadata={"java": "consumeThreadMax"})
    """Listeners that run at the same time."""
    consume_message_batch_max_size: int = attrs.field(
        default=1, validator=_whole(1, 1024), metadata={"java": "consumeMessageBatchMaxSize"}
    )
    """Messages that a listener gets at once; over 1 it gets lists."""
    consume_timeout: float = attrs.field(
        default=900.0, validator=_seconds(0.01, 86_400), metadata={"java": "consumeTimeout", "scale": 1 / 60}
    )
    """Seconds (minutes in Java) after which a message whose listener does not return is sent back."""
    consume_concurrently_max_span: int = attrs.field(
        default=2000, validator=_whole(1, 65_535), metadata={"java": "consumeConcurrentlyMaxSpan"}
    )
    """Distance between the lowest and the highest offset held of a queue, above which pulling waits."""
    pull_threshold_for_queue: int = attrs.field(
        default=1000, validator=_whole(1, 65_535), metadata={"java": "pullThresholdForQueue"}
    )
    """Messages held of a queue, above which pulling waits."""
    pull_threshold_size_for_queue: int = attrs.field(
        default=100, validator=_whole(1, 1024), metadata={"java": "pullThresholdSizeForQueue"}
    )
    """MiB held of a queue, above which pulling waits."""
    pull_threshold_for_topic: int = attrs.field(
        default=-1, validator=_whole(1, 6_553_500, off=-1), metadata={"java": "pullThresholdForTopic"}
    )
    """Messages held of a topic; shared out among the queues that this consumer has. -1: no such bound."""
    pull_threshold_size_for_topic: int = attrs.field(
        default=-1, validator=_whole(1, 102_400, off=-1), metadata={"java": "pullThresholdSizeForTopic"}
    )
    """MiB held of a topic; shared out among the queues that this consumer has. -1: no such bound."""
    pull_batch_size: int = attrs.field(default=32, validator=_whole(1, 1024), metadata={"java": "pullBatchSize"})
    """Messages to ask for in one pull."""
    pull_interval: float = attrs.field(
        default=0.0, validator=_seconds(0, 65.535), metadata={"java": "pullInterval", "scale": 1000}
    )
    """Seconds to wait between an answer and the next pull of a queue."""
    post_subscription_when_pull: bool = attrs.field(default=False, metadata={"java": "postSubscriptionWhenPull"})
    """Whether every pull carries the subscription, for brokers that do not know it from heartbeats."""
    broker_suspend_max_time: float = attrs.field(
        default=15.0, validator=_seconds(0, 600), metadata={"java": "BROKER_SUSPEND_MAX_TIME_MILLIS", "scale": 1000}
    )
    """Seconds for which a broker holds a pull that finds nothing."""
    consumer_timeout_when_suspend: float = attrs.field(
        default=30.0,
        validator=_seconds(0.01, 600),
        metadata={"java": "CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND", "scale": 1000},
    )
    """Seconds to wait for the answer to a pull; longer than `broker_suspend_max_time`."""
    pull_time_delay_when_exception: float = attrs.field(
        default=3.0, validator=_seconds(0.001, 600), metadata={"java": "pullTimeDelayMillsWhenException", "scale": 1000}
    )
    """Seconds to wait before a queue is pulled again after an error."""
    max_reconsume_times: int = attrs.field(
        default=-1, validator=_whole(0, off=-1), metadata={"java": "maxReconsumeTimes"}
    )
    """How often a message that failed comes again before it goes to the dead-letter queue. -1: 16 times."""
    await_termination: float = attrs.field(
        default=10.0,
        validator=_seconds(0, 86_400),
        metadata={"java": "awaitTerminationMillisWhenShutdown", "scale": 1000},
    )
    """Seconds that listeners get to finish when the consumer closes (none in Java)."""

    def __attrs_post_init__(self) -> None:
        """Fields that only make sense together."""
        if self.consumer_timeout_when_suspend <= self.broker_suspend_max_time:
            raise ConfigError(
                f"consumer_timeout_when_suspend ({self.consumer_timeout_when_suspend:g} s) must be longer than "
                f"broker_suspend_max_time ({self.broker_suspend_max_time:g} s), or held pulls never get their answer"
            )
