"""What a broker has done and holds, under the keys of Apache's: the answer to GET_BROKER_RUNTIME_INFO.

Only what this broker knows stands in it. Plays the part of prepareRuntimeInfo in AdminBrokerProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import MessageDecodeError, StoreError
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import CURRENT_VERSION
from rocketpy.wire.names import SCHEDULE_TOPIC
from rocketpy.wire.record import read_head
from rocketpy_broker_sim.broker.delay import queue_of_level
from rocketpy_broker_sim.config import MASTER_ID
from rocketpy_broker_sim.store.log import commit_log
from rocketpy_broker_sim.store.queue import consume_queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy_broker_sim.broker.broker import Broker
    from rocketpy_broker_sim.broker.statistics import Totals

__all__ = ["runtime_info"]

_VERSION = "V5_3_3"
_LANES = {
    "send": ("sendThreadPoolQueue", "sendThreadPoolQueueCapacity"),
    "pull": ("pullThreadPoolQueue", "pullThreadPoolQueueCapacity"),
    "lite pull": ("litePullThreadPoolQueue", "litePullThreadPoolQueueCapacity"),
    "query": ("queryThreadPoolQueue", "queryThreadPoolQueueCapacity"),
    "ack": ("ackThreadPoolQueue", "ackThreadPoolQueueCapacity"),
    "end transaction": ("EndTransactionQueue", "EndTransactionThreadPoolQueueCapacity"),
}
"""Prefix and capacity key of each lane; Apache's are irregular."""
_TRANSFERRED = ("getTransferredTps", "getTransferedTps")
"""Tools of releases 4.x look for the key as it was misspelt there."""
_RATES = (10, 60, 600)
"""Seconds over which rates are told."""
_NO_TIMER = {
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}
"""What Apache's broker says without a timer wheel; its tools expect numbers."""


def runtime_info(broker: Broker) -> dict[str, str]:
    """The table."""
    now = wall_ms()
    return {
        "brokerVersion": str(CURRENT_VERSION),
        "brokerVersionDesc": _VERSION,
        "brokerActive": "true" if broker.config.broker_id == MASTER_ID else "false",
        "bootTimestamp": str(broker.boot_timestamp),
        "runtime": _duration(now - broker.boot_timestamp),
        "startAcceptSendRequestTimeStamp": str(broker.config.start_accept_send_request_time_stamp),
        **_store(broker),
        **_messages(broker),
        **_puts(broker),
        **_lanes(broker),
        **_delays(broker),
        **_NO_TIMER,
    }


def _duration(milliseconds: int) -> str:
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _store(broker: Broker) -> dict[str, str]:
    store = broker.store
    return {
        "commitLogMinOffset": str(store.log_start),
        "commitLogMaxOffset": str(store.written_position),
        "commitLogDiskRatio": f"{broker.storage.usage(commit_log.FOLDER):.2f}",
        "consumeQueueDiskRatio": f"{broker.storage.usage(consume_queue.FOLDER):.2f}",
        "dispatchBehindBytes": str(store.dispatch_behind),
        "dispatchMaxBuffer": str(store.dispatch_most_waiting),
        "remainHowManyDataToFlush": _bytes(store.written_position - store.flushed_position),
        **_buffers(broker),
        "runningFlags": str(store.flags),
        **_capacity(broker),
        "earliestMessageTimeStamp": str(_earliest(broker)),
    }


def _buffers(broker: Broker) -> dict[str, str]:
    """How much of the transient pool is left, and what waits in it; without one, what Apache's broker says."""
    store = broker.store
    if store.pool is None:
        return {"remainTransientStoreBufferNumbs": str(2**31 - 1)}
    return {
        "remainTransientStoreBufferNumbs": str(store.pool.available),
        "remainHowManyDataToCommit": _bytes(store.buffered_position - store.written_position),
    }


def _capacity(broker: Broker) -> dict[str, str]:
    """How large the disk is, where there is one."""
    total, free = broker.storage.space()
    return {"commitLogDirCapacity": f"Total : {_bytes(total)}, Free : {_bytes(free)}."} if total else {}


def _puts(broker: Broker) -> dict[str, str]:
    """How long puts took, and how many the disk refused."""
    times = broker.put_times
    return {
        "putMessageEntireTimeMax": str(times.longest),
        "putMessageFailedTimes": str(times.failed),
        "putMessageDistributeTime": times.distribution(),
        "putLatency99": f"{times.percentile(0.99):.2f}",
        "putLatency999": f"{times.percentile(0.999):.2f}",
        "pageCacheLockTimeMills": str(broker.conditions.held_ms),
    }


def _messages(broker: Broker) -> dict[str, str]:
    """What came and went: since the start, up to the last two midnights, and a second lately."""
    statistics = broker.statistics
    now, (today, yesterday) = statistics.totals(), statistics.mornings()
    size = broker.store.written_position - broker.booted_at

    def rates(which: Callable[[Totals], int]) -> str:
        return " ".join(str(statistics.rate(which, seconds)) for seconds in _RATES)

    return {
        "putMessageTimesTotal": str(now.put),
        "putMessageSizeTotal": str(size),
        "putMessageAverageSize": str(size / now.put if now.put else 0.0),
        "putTps": rates(lambda totals: totals.put),
        "getFoundTps": rates(lambda totals: totals.found),
        "getMissTps": rates(lambda totals: totals.missed),
        "getTotalTps": rates(lambda totals: totals.found + totals.missed),
        **dict.fromkeys(_TRANSFERRED, rates(lambda totals: totals.transferred)),
        "getMessageEntireTimeMax": str(int(statistics.longest_get * 1000)),
        "msgPutTotalTodayNow": str(now.put),
        "msgPutTotalTodayMorning": str(today.put),
        "msgPutTotalYesterdayMorning": str(yesterday.put),
        "msgGetTotalTodayNow": str(now.transferred),
        "msgGetTotalTodayMorning": str(today.transferred),
        "msgGetTotalYesterdayMorning": str(yesterday.transferred),
    }


def _earliest(broker: Broker) -> int:
    """When the oldest message of all was stored, -1 when there is none."""
    try:
        record = broker.store.read(broker.store.log_start)
        return -1 if record is None else read_head(record).store_timestamp
    except (StoreError, MessageDecodeError):
        return -1


def _bytes(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 4)
    return f"{count / (1 << 10 * power):.1f} {'KMGT'[power - 1]}iB"


def _lanes(broker: Broker) -> dict[str, str]:
    found = {}
    statistics = broker.lanes.statistics()
    for name, (prefix, capacity) in _LANES.items():
        lane = statistics[name]
        found[f"{prefix}Size"] = str(lane.waiting)
        found[f"{prefix}HeadWaitTimeMills"] = str(int(lane.oldest * 1000))
        found[capacity] = str(lane.capacity)
    return found


def _delays(broker: Broker) -> dict[str, str]:
    """How far each delay level has been delivered, and where it ends."""
    return {
        f"scheduleMessageOffset_{level}": f"{offset},{broker.store.max_offset(SCHEDULE_TOPIC, queue_of_level(level))}"
        for level, offset in broker.schedule.progress().items()
    }
