"""What a broker has done and holds, under the keys of Apache's: the answer to GET_BROKER_RUNTIME_INFO.

Each subsystem measures itself with the function that is here for it. Only what this broker knows stands in the table.
Plays the part of prepareRuntimeInfo in AdminBrokerProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.errors import MessageDecodeError, StoreError
from rocketpy.seams import wall_ms
from rocketpy.wire.codes import CURRENT_VERSION
from rocketpy.wire.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC
from rocketpy.wire.record import read_head
from rocketpy_broker_sim.broker.delays.delay import queue_of_level
from rocketpy_broker_sim.broker.held_requests.waiter_index import Reason
from rocketpy_broker_sim.broker.transactions.half import HALF_QUEUE
from rocketpy_broker_sim.config import MASTER_ID
from rocketpy_broker_sim.store.log import commit_log
from rocketpy_broker_sim.store.queue import consume_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.delays.schedule import ScheduleService
    from rocketpy_broker_sim.broker.held_requests.waiters import Waiters
    from rocketpy_broker_sim.broker.lanes import Lanes
    from rocketpy_broker_sim.broker.putting.put_times import PutTimes
    from rocketpy_broker_sim.broker.statistics import BrokerStatistics, Totals
    from rocketpy_broker_sim.broker.subsystem import Subsystem
    from rocketpy_broker_sim.broker.timer.service import TimerService
    from rocketpy_broker_sim.broker.transactions.ledger import Ledger
    from rocketpy_broker_sim.broker.write_conditions import WriteConditions
    from rocketpy_broker_sim.config import BrokerConfig
    from rocketpy_broker_sim.store.message_reads import MessageReads
    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.timer.store import TimerStore

__all__ = [
    "NO_TIMER",
    "measures_of_delays",
    "measures_of_lanes",
    "measures_of_messages",
    "measures_of_puts",
    "measures_of_store",
    "measures_of_timer",
    "measures_of_transactions",
    "measures_of_waiters",
    "runtime_info",
]

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
NO_TIMER: Mapping[str, str] = {
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}
"""What Apache's broker says without a timer wheel; its tools expect numbers."""


def runtime_info(config: BrokerConfig, boot_timestamp: int, subsystems: Iterable[Subsystem]) -> dict[str, str]:
    """The table.

    Args:
        config: the settings of the broker.
        boot_timestamp: when it was made, ms.
        subsystems: its parts.
    """
    found = {
        "brokerVersion": str(CURRENT_VERSION),
        "brokerVersionDesc": _VERSION,
        "brokerActive": "true" if config.broker_id == MASTER_ID else "false",
        "bootTimestamp": str(boot_timestamp),
        "runtime": _duration(max(0, wall_ms() - boot_timestamp)),
        "startAcceptSendRequestTimeStamp": str(config.start_accept_send_request_time_stamp),
    }
    for subsystem in subsystems:
        found.update(subsystem.measures())
    return found


def _duration(milliseconds: int) -> str:
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def measures_of_store(store: MessageStore, storage: Storage) -> dict[str, str]:
    """How far the log goes and is flushed, and how full the disk is."""
    return {
        "commitLogMinOffset": str(store.reads.log_start),
        "commitLogMaxOffset": str(store.written_position),
        **_disk_of_log(storage),
        "consumeQueueDiskRatio": f"{storage.usage(consume_queue.FOLDER):.2f}",
        "dispatchBehindBytes": str(store.dispatch_behind),
        "dispatchMaxBuffer": str(store.dispatch_most_waiting),
        "remainHowManyDataToFlush": _bytes(store.written_position - store.flushed_position),
        **_buffers(store),
        "runningFlags": str(store.flags),
        **_capacity(storage),
        "earliestMessageTimeStamp": str(_earliest(store.reads)),
    }


def _disk_of_log(storage: Storage) -> dict[str, str]:
    """How full the disk of the log is, and once more under its path, of which Apache's broker may have several."""
    used = f"{storage.usage(commit_log.FOLDER):.2f}"
    where = {f"commitLogDiskRatio_{storage.describe(commit_log.FOLDER)}": used} if storage.space()[0] else {}
    return {"commitLogDiskRatio": used, **where}


def _buffers(store: MessageStore) -> dict[str, str]:
    """How much of the transient pool is left, and what waits in it; without one, what Apache's broker says."""
    if store.pool is None:
        return {"remainTransientStoreBufferNumbs": str(2**31 - 1)}
    return {
        "remainTransientStoreBufferNumbs": str(store.pool.available),
        "remainHowManyDataToCommit": _bytes(store.buffered_position - store.written_position),
    }


def _capacity(storage: Storage) -> dict[str, str]:
    """How large the disk is, where there is one."""
    total, free = storage.space()
    return {"commitLogDirCapacity": f"Total : {_bytes(total)}, Free : {_bytes(free)}."} if total else {}


def measures_of_puts(times: PutTimes, conditions: WriteConditions) -> dict[str, str]:
    """How long puts took, and how many the disk refused."""
    return {
        "putMessageEntireTimeMax": str(times.longest),
        "putMessageFailedTimes": str(times.failed),
        "putMessageDistributeTime": times.distribution(),
        "putLatency99": f"{times.percentile(0.99):.2f}",
        "putLatency999": f"{times.percentile(0.999):.2f}",
        "pageCacheLockTimeMills": str(conditions.held_ms),
    }


def measures_of_messages(statistics: BrokerStatistics, size: int) -> dict[str, str]:
    """What came and went: since the start, up to the last two midnights, and a second lately.

    Args:
        statistics: the sums.
        size: bytes that came.
    """
    now, (today, yesterday) = statistics.totals(), statistics.mornings()

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


def _earliest(reads: MessageReads) -> int:
    """When the oldest message of all was stored, -1 when there is none."""
    try:
        record = reads.read(reads.log_start)
        return -1 if record is None else read_head(record).store_timestamp
    except (StoreError, MessageDecodeError):
        return -1


def _bytes(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 4)
    return f"{count / (1 << 10 * power):.1f} {'KMGT'[power - 1]}iB"


def measures_of_lanes(lanes: Lanes) -> dict[str, str]:
    """How full the lanes are, those that Apache's broker tells of."""
    found = {}
    statistics = lanes.statistics()
    for name, (prefix, capacity) in _LANES.items():
        lane = statistics[name]
        found[f"{prefix}Size"] = str(lane.waiting)
        found[f"{prefix}HeadWaitTimeMills"] = str(int(lane.oldest * 1000))
        found[capacity] = str(lane.capacity)
    return found


def measures_of_delays(schedule: ScheduleService, reads: MessageReads) -> dict[str, str]:
    """How far each delay level has been delivered, and where it ends."""
    return {
        f"scheduleMessageOffset_{level}": f"{offset},{reads.max_offset(SCHEDULE_TOPIC, queue_of_level(level))}"
        for level, offset in schedule.progress().items()
    }


def measures_of_transactions(ledger: Ledger, reads: MessageReads) -> dict[str, str]:
    """Counts of open transactions, of ends since the start, and of checks; keys of ours."""
    end = reads.max_offset(TRANSACTION_HALF_TOPIC, HALF_QUEUE)
    return {
        "openTransactions": str(sum(ledger.metrics.counts().values())),
        "halfMessageOffset": f"{ledger.window.base},{end}",
        "transactionsCommitted": str(ledger.commits),
        "transactionsRolledBack": str(ledger.rollbacks),
        "transactionsDiscarded": str(ledger.discarded),
        "transactionChecks": str(ledger.asked),
        "transactionChecksWithoutProducer": str(ledger.nobody_to_ask),
        "transactionEndsToWrite": str(len(ledger.pending)),
    }


def measures_of_timer(service: TimerService, timers: TimerStore) -> dict[str, str]:
    """How far the timer is behind, how many messages wait, and how many it takes and delivers a second."""
    oldest = timers.wheel.oldest()
    behind = 0 if oldest is None else wall_ms() - oldest * timers.precision - timers.precision
    taken, delivered = service.rates()
    return {
        "timerReadBehind": str(max(0, behind) // 1000),
        "timerOffsetBehind": str(service.enqueue.behind),
        "timerCongestNum": str(timers.wheel.waiting),
        "timerEnqueueTps": f"{taken:.1f}",
        "timerDequeueTps": f"{delivered:.1f}",
    }


def measures_of_waiters(waiters: Waiters) -> dict[str, str]:
    """How many pulls wait, the bytes kept for them, and how many were answered for which reason; keys of ours."""
    return {
        "heldPulls": str(len(waiters)),
        "heldPullBytes": str(waiters.size),
        **{f"heldPullsEnded_{reason.value}": str(waiters.counts[reason]) for reason in Reason},
    }
