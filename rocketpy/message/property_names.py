"""Names of the message properties that RocketMQ itself reads or writes. Plays the part of MessageConst."""

from __future__ import annotations

from typing import Final

__all__ = ["KEY_SEPARATOR", "RESERVED_PROPERTIES", "PropertyName"]

KEY_SEPARATOR: Final = " "
"""Stands between the keys of a message in the property KEYS."""


class PropertyName:
    """Property names on the wire, under what they mean."""

    KEYS: Final = "KEYS"
    TAGS: Final = "TAGS"
    WAIT: Final = "WAIT"
    DELAY: Final = "DELAY"
    RETRY_TOPIC: Final = "RETRY_TOPIC"
    REAL_TOPIC: Final = "REAL_TOPIC"
    REAL_QUEUE_ID: Final = "REAL_QID"
    TRANSACTION_PREPARED: Final = "TRAN_MSG"
    PRODUCER_GROUP: Final = "PGROUP"
    MIN_OFFSET: Final = "MIN_OFFSET"
    MAX_OFFSET: Final = "MAX_OFFSET"
    BUYER_ID: Final = "BUYER_ID"
    ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
    TRANSFER_FLAG: Final = "TRANSFER_FLAG"
    CORRECTION_FLAG: Final = "CORRECTION_FLAG"
    MQ2_FLAG: Final = "MQ2_FLAG"
    RECONSUME_TIME: Final = "RECONSUME_TIME"
    MSG_REGION: Final = "MSG_REGION"
    TRACE_SWITCH: Final = "TRACE_ON"
    UNIQUE_KEY: Final = "UNIQ_KEY"
    EXTEND_UNIQUE_INFO: Final = "EXTEND_UNIQ_INFO"
    MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
    CONSUME_START_TIME: Final = "CONSUME_START_TIME"
    INNER_NUM: Final = "INNER_NUM"
    INNER_BASE: Final = "INNER_BASE"
    DUP_INFO: Final = "DUP_INFO"
    CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
    TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
    TRANSACTION_ID: Final = "__transactionId__"
    TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
    INSTANCE_ID: Final = "INSTANCE_ID"
    CORRELATION_ID: Final = "CORRELATION_ID"
    REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
    TTL: Final = "TTL"
    ARRIVE_TIME: Final = "ARRIVE_TIME"
    PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
    CLUSTER: Final = "CLUSTER"
    MESSAGE_TYPE: Final = "MSG_TYPE"
    POP_CK: Final = "POP_CK"
    POP_CK_OFFSET: Final = "POP_CK_OFFSET"
    FIRST_POP_TIME: Final = "1ST_POP_TIME"
    SHARDING_KEY: Final = "__SHARDINGKEY"
    FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
    REDIRECT: Final = "REDIRECT"
    INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
    TRACE_CONTEXT: Final = "TRACE_CONTEXT"
    TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
    TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
    BORN_HOST: Final = "__BORNHOST"
    BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
    TRANSIENT_TOPIC_CONFIG: Final = "__RMQ.TRANSIENT.TOPIC_SYS_FLAG"
    TRANSIENT_GROUP_CONFIG: Final = "__RMQ.TRANSIENT.GROUP_SYS_FLAG"
    TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
    TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
    TIMER_OUT_MS: Final = "TIMER_OUT_MS"
    TIMER_DEL_UNIQUE_KEY: Final = "TIMER_DEL_UNIQKEY"
    TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
    TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
    CRC32: Final = "__CRC32#"
    DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"


RESERVED_PROPERTIES: Final = frozenset(
    {
        PropertyName.KEYS,
        PropertyName.TAGS,
        PropertyName.WAIT,
        PropertyName.DELAY,
        PropertyName.RETRY_TOPIC,
        PropertyName.REAL_TOPIC,
        PropertyName.REAL_QUEUE_ID,
        PropertyName.TRANSACTION_PREPARED,
        PropertyName.PRODUCER_GROUP,
        PropertyName.MIN_OFFSET,
        PropertyName.MAX_OFFSET,
        PropertyName.BUYER_ID,
        PropertyName.ORIGIN_MESSAGE_ID,
        PropertyName.TRANSFER_FLAG,
        PropertyName.CORRECTION_FLAG,
        PropertyName.MQ2_FLAG,
        PropertyName.RECONSUME_TIME,
        PropertyName.MSG_REGION,
        PropertyName.TRACE_SWITCH,
        PropertyName.UNIQUE_KEY,
        PropertyName.EXTEND_UNIQUE_INFO,
        PropertyName.MAX_RECONSUME_TIMES,
        PropertyName.CONSUME_START_TIME,
        PropertyName.DUP_INFO,
        PropertyName.TRANSACTION_PREPARED_QUEUE_OFFSET,
        PropertyName.INSTANCE_ID,
        PropertyName.CORRELATION_ID,
        PropertyName.REPLY_TO_CLIENT,
        PropertyName.TTL,
        PropertyName.ARRIVE_TIME,
        PropertyName.PUSH_REPLY_TIME,
        PropertyName.CLUSTER,
        PropertyName.MESSAGE_TYPE,
        PropertyName.POP_CK,
        PropertyName.POP_CK_OFFSET,
        PropertyName.FIRST_POP_TIME,
        PropertyName.INNER_MULTI_QUEUE_OFFSET,
        PropertyName.TIMER_DELAY_SEC,
        PropertyName.TIMER_DELIVER_MS,
        PropertyName.BORN_HOST,
        PropertyName.BORN_TIMESTAMP,
        PropertyName.TIMER_ENQUEUE_MS,
        PropertyName.TIMER_DEQUEUE_MS,
        PropertyName.TIMER_ROLL_TIMES,
        PropertyName.TIMER_OUT_MS,
        PropertyName.TIMER_DEL_UNIQUE_KEY,
        PropertyName.TIMER_DELAY_LEVEL,
        PropertyName.TIMER_DELAY_MS,
        PropertyName.CRC32,
        PropertyName.DLQ_ORIGIN_TOPIC,
        PropertyName.DLQ_ORIGIN_MESSAGE_ID,
        # Those above are the names that Java's client refuses; it takes these, which only clients and brokers write.
        PropertyName.SHARDING_KEY,
        PropertyName.TRANSACTION_ID,
        PropertyName.TRANSACTION_CHECK_TIMES,
        PropertyName.INNER_NUM,
        PropertyName.INNER_BASE,
        PropertyName.TRANSIENT_TOPIC_CONFIG,
        PropertyName.TRANSIENT_GROUP_CONFIG,
    }
)
"""Names that a user's property may not have: RocketMQ's own properties.

The other names above are free: programs set CHECK_IMMUNITY_TIME_IN_SECONDS, INNER_MULTI_DISPATCH and TRACE_CONTEXT to
tell RocketMQ something, and nothing writes REDIRECT and PROPERTY_FORWARD_QUEUE_ID on a message.
"""
