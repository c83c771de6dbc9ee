"""What a consumer says about its inner state, and about one message that it was made to consume."""

from __future__ import annotations

from rocketpy.message import MessageQueue
from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.enums import CMResult
from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = [
    "ConsumeMessageDirectlyResult",
    "ConsumeStatus",
    "ConsumerRunningInfo",
    "PopProcessQueueInfo",
    "ProcessQueueInfo",
]


@body
class ProcessQueueInfo(Body):
    """A queue that the consumer pulls from. (`droped` is spelled as it travels.)"""

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: Int32 = 0
    cached_msg_size_in_mi_b: Int32 = member(default=0, name="cachedMsgSizeInMiB")
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: Int32 = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


@body
class PopProcessQueueInfo(Body):
    """A queue that the consumer pops from."""

    wait_ack_count: Int32 = 0
    droped: bool = False
    last_pop_timestamp: int = 0


@body
class ConsumeStatus(Body):
    """Rates of one topic; times in ms."""

    pull_rt: float = member(default=0.0, name="pullRT")
    pull_tps: float = member(default=0.0, name="pullTPS")
    consume_rt: float = member(default=0.0, name="consumeRT")
    consume_ok_tps: float = member(default=0.0, name="consumeOKTPS")
    consume_failed_tps: float = member(default=0.0, name="consumeFailedTPS")
    consume_failed_msgs: int = 0


@body
class ConsumerRunningInfo(Body):
    """The inner state of a consumer."""

    properties: dict[str, str] = member(factory=dict)
    subscription_set: list[SubscriptionData] = member(factory=list)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = member(factory=dict)
    mq_pop_table: dict[MessageQueue, PopProcessQueueInfo] = member(factory=dict)
    status_table: dict[str, ConsumeStatus] = member(factory=dict)
    user_consumer_info: dict[str, str] = member(factory=dict)
    jstack: str | None = None


@body
class ConsumeMessageDirectlyResult(Body):
    """What came of consuming one message on demand."""

    order: bool = False
    auto_commit: bool = True
    consume_result: CMResult | None = None
    remark: str | None = None
    spent_time_mills: int = 0
