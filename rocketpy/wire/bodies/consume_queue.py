"""What a broker answers about its consume queues: single entries, and whether those in RocksDB agree with files."""

from __future__ import annotations

from rocketpy.wire.bodies.subscription import SubscriptionData
from rocketpy.wire.json_body import Body, Int32, body

__all__ = ["CheckRocksdbCqWriteResult", "ConsumeQueueData", "QueryConsumeQueueResponseBody"]


@body
class ConsumeQueueData(Body):
    """One entry of a consume queue, and whether the filter of the group lets its message through."""

    physic_offset: int = 0
    physic_size: Int32 = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


@body
class QueryConsumeQueueResponseBody(Body):
    """The answer to QUERY_CONSUME_QUEUE."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] | None = None
    max_queue_index: int = 0
    min_queue_index: int = 0


@body
class CheckRocksdbCqWriteResult(Body):
    """The answer to CHECK_ROCKSDB_CQ_WRITE_PROGRESS."""

    check_result: str | None = None
    check_status: Int32 = 0
