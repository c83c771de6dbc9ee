"""The settings of each class as keywords, for type checkers and editors: ``**fields: Unpack[ProducerSettings]``.

One `TypedDict` for each config class, with the types that its converters accept. `group` is not among the keys, because
every constructor that has a group names it itself. Nothing imports this at run time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, TypedDict

from rocketpy.config.latency import LatencyTable
from rocketpy.config.strategy_names import StrategyName
from rocketpy.message import MessageQueue
from rocketpy.serialization.serializer import Serializer
from rocketpy.wire.codes import SerializeType
from rocketpy.wire.compression import CompressionType
from rocketpy.wire.enums import ConsumeFromWhere, MessageModel

__all__ = [
    "ClientSettings",
    "LitePullConsumerSettings",
    "ObservedSettings",
    "ProducerSettings",
    "PullConsumerSettings",
    "PushConsumerSettings",
    "SharingSettings",
    "TracedSettings",
    "TransactionProducerSettings",
]


SerializeName: TypeAlias = Literal["json", "rocketmq", "JSON", "ROCKETMQ"]
CompressionName: TypeAlias = Literal["zlib", "lz4", "zstd", "ZLIB", "LZ4", "ZSTD"]
ModelName: TypeAlias = Literal["clustering", "broadcasting", "CLUSTERING", "BROADCASTING"]
StartName: TypeAlias = Literal[
    "earliest",
    "first",
    "latest",
    "last",
    "timestamp",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
]


class ClientSettings(TypedDict, total=False):
    """The settings of `ClientConfig`."""

    namesrv: str | Iterable[str] | None
    client_ip: str | None
    instance_name: str | None
    unit_name: str | None
    unit_mode: bool
    address_map: Mapping[str, str] | None
    serialize_type: SerializeType | SerializeName
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    poll_name_server_interval: float | timedelta
    heartbeat_broker_interval: float | timedelta
    persist_consumer_offset_interval: float | timedelta
    connect_timeout: float | timedelta
    request_timeout: float | timedelta
    idle_timeout: float | timedelta
    close_timeout: float | timedelta


class ObservedSettings(ClientSettings, total=False):
    """The settings of `ObservedConfig`."""

    on_statistics: Callable[..., Any] | None
    statistics_interval: float | timedelta


class TracedSettings(ObservedSettings, total=False):
    """The settings of `TracedConfig`."""

    enable_msg_trace: bool
    trace_topic: str
    trace_msg_batch_num: int


class ProducerSettings(TracedSettings, total=False):
    """The settings of `ProducerConfig`."""

    send_timeout: float | timedelta
    send_msg_max_timeout_per_request: float | timedelta | None
    exit_timeout: float | timedelta | None
    retry_times_when_send_failed: int
    retry_times_when_send_async_failed: int
    retry_another_broker_when_not_store_ok: bool
    retry_response_codes: Iterable[int]
    compress_body_over: int
    compress_type: CompressionType | CompressionName
    compress_level: int
    max_message_size: int
    serializer: Literal["msgpack", "json", "string", "binary"] | Serializer
    default_topic_queue_nums: int
    create_topic_key: str
    back_pressure_for_async_send_num: int
    back_pressure_for_async_send_size: int
    linger: float | timedelta | None
    batch_max_bytes: int
    total_batch_max_bytes: int
    send_latency_enable: bool
    latency_table: LatencyTable | Literal["4.x", "5.x"]
    start_detector_enable: bool
    detect_interval: float | timedelta
    detect_timeout: float | timedelta
    check_forbidden: Callable[..., object] | None
    before_send: Callable[..., object] | None
    after_send: Callable[..., object] | None


class TransactionProducerSettings(ProducerSettings, total=False):
    """The settings of `TransactionProducerConfig`."""

    topics: Iterable[str]
    check_thread_pool_max_size: int
    check_request_hold_max: int


class SharingSettings(TracedSettings, total=False):
    """The settings of `SharingConfig`."""

    serializers: Serializer | Iterable[Serializer]
    message_model: MessageModel | ModelName
    consume_from_where: ConsumeFromWhere | StartName
    consume_timestamp: str | int | datetime | None
    allocate_strategy: StrategyName | Callable[[Any], Iterable[MessageQueue]]
    offset_store: Any
    local_offset_store_dir: str | os.PathLike[str] | None
    on_assigned: Callable[..., Any] | None
    on_revoked: Callable[..., Any] | None
    rebalance_hook_timeout: float | timedelta
    rebalance_interval: float | timedelta
    pull_time_delay_when_exception: float | timedelta
    start_timeout: float | timedelta


class PushConsumerSettings(SharingSettings, total=False):
    """The settings of `PushConsumerConfig`."""

    lock_interval: float | timedelta
    lock_max_live_time: float | timedelta
    consume_thread_max: int
    consume_message_batch_max_size: int
    dedupe: Literal["unique_id", "key"] | None
    dedupe_size: int
    before_consume: Callable[..., Any] | None
    after_consume: Callable[..., Any] | None
    consume_timeout: float | timedelta
    orderly: bool
    auto_commit: bool
    suspend_current_queue_time: float | timedelta
    consume_concurrently_max_span: int
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue: int
    pull_threshold_for_topic: int
    pull_threshold_size_for_topic: int
    pull_batch_size: int
    pull_interval: float | timedelta
    post_subscription_when_pull: bool
    broker_suspend_max_time: float | timedelta
    consumer_timeout_when_suspend: float | timedelta
    max_reconsume_times: int
    await_termination: float | timedelta


class LitePullConsumerSettings(SharingSettings, total=False):
    """The settings of `LitePullConsumerConfig`."""

    auto_commit: bool
    auto_commit_interval: float | timedelta
    poll_timeout: float | timedelta
    pull_batch_size: int
    pull_threshold_for_all: int
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue: int
    consume_max_span: int
    broker_suspend_max_time: float | timedelta
    consumer_timeout_when_suspend: float | timedelta


class PullConsumerSettings(ObservedSettings, total=False):
    """The settings of `PullConsumerConfig`."""

    serializers: Serializer | Iterable[Serializer]
    broker_suspend_max_time: float | timedelta
    consumer_timeout_when_suspend: float | timedelta
    consumer_pull_timeout: float | timedelta
