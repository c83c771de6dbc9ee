"""The settings of producers. Plays the part of the fields of DefaultMQProducer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

import attrs

from rocketpy.config.checks import (
    MIB,
    by_name,
    flag,
    group_name,
    member,
    plain_function_or_none,
    seconds,
    serializer_of,
    topic_name,
    whole,
)
from rocketpy.config.latency import LatencyTable, latency_table_of
from rocketpy.config.tracing import TracedConfig
from rocketpy.durations import duration, duration_or_none, shown
from rocketpy.errors import ConfigError
from rocketpy.serialization.serializer import Serializer
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.compression import CompressionType

__all__ = ["MOST_MESSAGE_SIZE", "ProducerConfig"]

MOST_MESSAGE_SIZE = 16 * MIB
"""The largest `max_message_size`, in bytes."""


_CONTEXT = "the context of the send"


def _codes(value: Iterable[int]) -> frozenset[int]:
    try:
        if not isinstance(value, str | bytes):
            return frozenset(int(code) for code in value)
    except (TypeError, ValueError):
        pass
    raise ConfigError(f"retry_response_codes must be a list of numbers, not {value!r:.100}")


def _compression_type(value: CompressionType | str) -> CompressionType:
    return by_name(CompressionType, value)


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


def _linger(config: ProducerConfig, field: attrs.Attribute[float | None], value: float | None) -> None:
    """Java's bounds, and less than `send_timeout`, so that time is left after a message has lingered."""
    if value is None:
        return
    seconds(0.001, 30)(config, field, value)
    if value >= config.send_timeout:
        raise ConfigError(
            f"linger must be less than send_timeout ({config.send_timeout:g} s), not {shown(value)}: give seconds; "
            "10 milliseconds are 0.01"
        )


@attrs.frozen(kw_only=True, repr=False)
class ProducerConfig(TracedConfig):
    """How a producer sends."""

    _shown_first: ClassVar[tuple[str, ...]] = ("group",)

    group: str = attrs.field(validator=group_name, metadata={"java": "producerGroup"})
    """Name of the producer group, which all producers of one application share."""
    send_timeout: float = attrs.field(
        default=3.0,
        converter=duration,
        validator=seconds(0.001, 600),
        metadata={"java": "sendMsgTimeout", "scale": 1000},
    )
    """Seconds that a send may take, including its retries."""
    send_msg_max_timeout_per_request: float | None = attrs.field(
        default=None,
        converter=duration_or_none,
        validator=attrs.validators.optional(seconds(0.001, 600)),
        metadata={"java": "sendMsgMaxTimeoutPerRequest", "scale": 1000},
    )
    """Seconds that one attempt of a send may take. When None, an attempt gets half of the remaining time if another
    broker can be tried afterwards, and otherwise all of it."""
    exit_timeout: float | None = attrs.field(
        default=None,
        converter=duration_or_none,
        validator=attrs.validators.optional(seconds(0.0, 600)),
        metadata={"java": None},
    )
    """Seconds that the producer waits for the messages of `send_soon` when the process ends without closing it, or when
    an exception ends its block; `send_timeout` when None."""
    retry_times_when_send_failed: int = attrs.field(
        default=2, validator=whole(0, 100), metadata={"java": "retryTimesWhenSendFailed"}
    )
    """How often `send` retries."""
    retry_times_when_send_async_failed: int = attrs.field(
        default=2, validator=whole(0, 100), metadata={"java": "retryTimesWhenSendAsyncFailed"}
    )
    """How often `send_soon` retries."""
    retry_another_broker_when_not_store_ok: bool = attrs.field(
        default=False, validator=flag, metadata={"java": "retryAnotherBrokerWhenNotStoreOK"}
    )
    """Whether a message that was stored, but not yet flushed or copied, is sent again. It may then arrive twice."""
    retry_response_codes: frozenset[int] = attrs.field(
        default=_RETRY_RESPONSE_CODES, converter=_codes, metadata={"java": "retryResponseCodes"}
    )
    """Response codes after which another broker is tried."""
    compress_body_over: int = attrs.field(
        default=4096, validator=whole(0), metadata={"java": "compressMsgBodyOverHowmuch"}
    )
    """Bodies of this many bytes or more are compressed."""
    compress_type: CompressionType = attrs.field(
        default=CompressionType.ZLIB,
        converter=_compression_type,
        validator=member(CompressionType, "zlib", "lz4", "zstd"),
        metadata={"java": "compressType"},
    )
    """How they are compressed: "zlib", or "lz4" or "zstd" (which need the extra of that name, here and in consumers).
    Brokers before 5.0 and their clients only support ZLIB; a warning is logged once for each such broker."""
    compress_level: int = attrs.field(default=5, validator=whole(0, 9), metadata={"java": "compressLevel"})
    """The compression level, 0 to 9. Has no effect on LZ4."""
    max_message_size: int = attrs.field(
        default=4 * MIB, validator=whole(1, MOST_MESSAGE_SIZE), metadata={"java": "maxMessageSize"}
    )
    """The largest body or encoded batch, in bytes."""
    serializer: str | Serializer = attrs.field(default="msgpack", converter=serializer_of, metadata={"java": None})
    """Encodes the values of messages: "msgpack", "json", "string", "binary", or an object of your own with `name`,
    `content_type`, `encode` and `decode`."""
    default_topic_queue_nums: int = attrs.field(
        default=4, validator=whole(1, 65_536), metadata={"java": "defaultTopicQueueNums"}
    )
    """Queues of a topic that is created by sending to it."""
    create_topic_key: str = attrs.field(default="TBW102", validator=topic_name, metadata={"java": "createTopicKey"})
    """The topic whose brokers create a topic at its first message. `create_topic` uses the brokers of this topic if it
    is not the default, and otherwise all registered ones."""
    back_pressure_for_async_send_num: int = attrs.field(
        default=1024, validator=whole(1, 65_535), metadata={"java": "backPressureForAsyncSendNum"}
    )
    """Back-pressure: the number of messages in flight at which `send_soon` waits."""
    back_pressure_for_async_send_size: int = attrs.field(
        default=100 * MIB, validator=whole(1), metadata={"java": "backPressureForAsyncSendSize"}
    )
    """Back-pressure: the bytes in flight at which `send_soon` waits."""
    linger: float | None = attrs.field(
        default=None, converter=duration_or_none, validator=_linger, metadata={"java": "batchMaxDelayMs", "scale": 1000}
    )
    """Seconds that a message may wait for others to join its batch, less than `send_timeout`; 0.01 is a good value.
    When None, each message is sent by itself."""
    batch_max_bytes: int = attrs.field(
        default=32 * 1024, validator=whole(1, 2 * MIB), metadata={"java": "batchMaxBytes"}
    )
    """Bytes of message bodies at which a batch is sent before `linger` is over. Used only with `linger`."""
    total_batch_max_bytes: int = attrs.field(
        default=32 * MIB, validator=whole(1), metadata={"java": "totalBatchMaxBytes"}
    )
    """Bytes of message bodies that wait to be sent or acknowledged, at which further sends wait. Used only with
    `linger`."""
    send_latency_enable: bool = attrs.field(default=False, validator=flag, metadata={"java": "sendLatencyEnable"})
    """Whether the producer avoids brokers for a while after they were slow or failed."""
    latency_table: LatencyTable = attrs.field(
        default=LatencyTable.RELEASE_4, converter=latency_table_of, metadata={"java": None}
    )
    """For how long a broker is avoided: "4.x" or "5.x" for the table of those releases, or a `LatencyTable` of your
    own. (In Java setLatencyMax and setNotAvailableDuration.) Used only with `send_latency_enable`."""
    start_detector_enable: bool = attrs.field(default=False, validator=flag, metadata={"java": "startDetectorEnable"})
    """Whether the producer keeps trying to reach brokers that could not be reached, and uses them again as soon as they
    answer. Used only with `send_latency_enable`."""
    detect_interval: float = attrs.field(
        default=2.0,
        converter=duration,
        validator=seconds(0.01, 600),
        metadata={"java": "detectInterval", "scale": 1000},
    )
    """Seconds between two attempts of the detector to reach a broker."""
    detect_timeout: float = attrs.field(
        default=0.2,
        converter=duration,
        validator=seconds(0.001, 600),
        metadata={"java": "detectTimeout", "scale": 1000},
    )
    """Seconds that one attempt of the detector may take."""
    check_forbidden: Callable[..., object] | None = attrs.field(
        default=None, validator=plain_function_or_none(_CONTEXT), metadata={"java": None}
    )
    """Called with the `SendContext` before each attempt of a send. If it raises, the attempt is not made, and the
    exception reaches the sender. A plain function that does not block. (In Java registerCheckForbiddenHook.)"""
    before_send: Callable[..., object] | None = attrs.field(
        default=None, validator=plain_function_or_none(_CONTEXT), metadata={"java": None}
    )
    """Called with the `SendContext` before each attempt of a send. An exception from it is logged. A plain function
    that does not block: it may be called in the loop of the client. (In Java registerSendMessageHook.)"""
    after_send: Callable[..., object] | None = attrs.field(
        default=None,
        validator=plain_function_or_none(_CONTEXT, "the result, the error, or None for a one-way send"),
        metadata={"java": None},
    )
    """Called after each attempt of a send, with the same `SendContext` and the outcome: the `SendResult`, the error, or
    None for a one-way send. An exception from it is logged. It is not called if the send is cancelled, or the producer
    closes, during the attempt. A plain function that does not block."""
