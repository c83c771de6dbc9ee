"""The answer to GET_BROKER_RUNTIME_INFO as metrics, under the names of RocketMQ's exporter for Prometheus.

That exporter asks brokers for the same answer. The names are irregular, and so are theirs. Plays the part of
collectBrokerRuntimeStats in RMQMetricsCollector.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from rocketpy_broker_sim.metrics.metric import Family, Metric

__all__ = ["RUNTIME_LABELS", "RUNTIME_METRICS", "runtime_families"]

RUNTIME_LABELS = ("brokerIP", "des", "boottime", "broker_version")
"""The labels of all these metrics: the address of the broker, the version that it plays, its start in ms, and the
number of that version."""
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE = re.compile(r"([0-9.]+) ([KMGT]?i?B)")

_Read = Callable[[str], float | None]


class _Row(NamedTuple):
    """A metric, and where it is in the answer.

    Attributes:
        suffix: The end of its name.
        key: The key of its text.
        help: What it means.
        read: Reads the value from the text; None if there is none in it.
    """

    suffix: str
    key: str
    help: str
    read: _Read = float


def _word(number: int) -> _Read:
    """One of several numbers, separated by blanks."""
    return lambda text: float(text.split()[number])


def _size(number: int) -> _Read:
    """One of the sizes in a text, in bytes."""

    def read(text: str) -> float | None:
        found = _SIZE.findall(text)
        return float(found[number][0]) * _UNITS[found[number][1]] if len(found) > number else None

    return read


def _span(name: str) -> _Read:
    """The number of puts of one span of time."""

    def read(text: str) -> float | None:
        found = re.search(re.escape(f"[{name}]:") + "([0-9]+)", text)
        return float(found[1]) if found else None

    return read


_SPANS = {
    "0ms": "<=0ms", "0to10ms": "0~10ms", "10to50ms": "10~50ms", "50to100ms": "50~100ms", "100to200ms": "100~200ms",
    "200to500ms": "200~500ms", "500to1s": "500ms~1s", "1to2s": "1~2s", "2to3s": "2~3s", "3to4s": "3~4s",
    "4to5s": "4~5s", "5to10s": "5~10s", "10stomore": "10s~",
}  # fmt: skip
_RATES = {
    "put_tps": ("putTps", "Messages stored per second"),
    "getfound_tps": ("getFoundTps", "Pulls per second that found messages"),
    "getmiss_tps": ("getMissTps", "Pulls per second that found none"),
    "gettotal_tps": ("getTotalTps", "Pulls per second"),
    "gettransfered_tps": ("getTransferredTps", "Messages pulled per second"),
}
_WINDOWS = ("10", "60", "600")

_ROWS = (
    _Row("msg_put_total_today_now", "msgPutTotalTodayNow", "Messages stored since the start"),
    _Row("msg_gettotal_today_now", "msgGetTotalTodayNow", "Messages pulled since the start"),
    _Row("msg_puttotal_todaymorning", "msgPutTotalTodayMorning", "Messages stored up to the last midnight"),
    _Row("msg_gettotal_todaymorning", "msgGetTotalTodayMorning", "Messages pulled up to the last midnight"),
    _Row("msg_puttotal_yesterdaymorning", "msgPutTotalYesterdayMorning", "The same, up to the midnight before"),
    _Row("msg_gettotal_yesterdaymorning", "msgGetTotalYesterdayMorning", "The same, up to the midnight before"),
    _Row("putmessage_times_total", "putMessageTimesTotal", "Messages stored since the start"),
    _Row("put_message_size_total", "putMessageSizeTotal", "Bytes stored since the start"),
    _Row("put_message_average_size", "putMessageAverageSize", "Bytes of a message, on average"),
    _Row("putmessage_entire_time_max", "putMessageEntireTimeMax", "Milliseconds of the longest put since the start"),
    _Row("getmessage_entire_time_max", "getMessageEntireTimeMax", "Milliseconds of the longest read since the start"),
    _Row("put_latency_99", "putLatency99", "Milliseconds of 99 % of puts of the last full minute, at most"),
    _Row("put_latency_999", "putLatency999", "Milliseconds of 99.9 % of puts of the last full minute, at most"),
    _Row("dispatch_behind_bytes", "dispatchBehindBytes", "Bytes of the log that are not in the queues yet"),
    _Row("dispatch_maxbuffer", "dispatchMaxBuffer", "The largest number of records that waited for that"),
    _Row("remain_howmanydata_toflush", "remainHowManyDataToFlush", "Bytes that are not flushed yet", _size(0)),
    _Row("remain_transientstore_buffer_numbs", "remainTransientStoreBufferNumbs", "Buffers that are free"),
    _Row("pagecache_lock_time_mills", "pageCacheLockTimeMills", "Milliseconds of an append that takes too long"),
    _Row(
        "earliest_message_timestamp",
        "earliestMessageTimeStamp",
        "When the oldest message was stored, ms since 1970; or -1",
    ),
    _Row(
        "start_accept_sendrequest_time",
        "startAcceptSendRequestTimeStamp",
        "From when on sends are accepted, ms since 1970",
    ),
    _Row("commitlog_disk_ratio", "commitLogDiskRatio", "How full the disk of the log is, 0 to 1"),
    _Row("consumequeue_disk_ratio", "consumeQueueDiskRatio", "How full the disk of the queues is, 0 to 1"),
    _Row("commitlog_maxoffset", "commitLogMaxOffset", "Position of the end of the log, bytes"),
    _Row("commitlog_minoffset", "commitLogMinOffset", "Position of the oldest byte of the log"),
    _Row("commitlogdir_capacity_total", "commitLogDirCapacity", "Bytes of the disk of the log", _size(0)),
    _Row("commitlogdir_capacity_free", "commitLogDirCapacity", "Bytes that are free on it", _size(1)),
    _Row("send_threadpool_queue_size", "sendThreadPoolQueueSize", "Sends that wait for their turn"),
    _Row("send_threadpoolqueue_capacity", "sendThreadPoolQueueCapacity", "Sends that may wait"),
    _Row("send_threadpoolqueue_headwait_timemills", "sendThreadPoolQueueHeadWaitTimeMills", "Longest wait now, ms"),
    _Row("pull_threadpoolqueue_size", "pullThreadPoolQueueSize", "Pulls that wait for their turn"),
    _Row("pull_threadpoolqueue_capacity", "pullThreadPoolQueueCapacity", "Pulls that may wait"),
    _Row("pull_threadpoolqueue_headwait_timemills", "pullThreadPoolQueueHeadWaitTimeMills", "Longest wait now, ms"),
    _Row("query_threadpoolqueue_size", "queryThreadPoolQueueSize", "Queries that wait for their turn"),
    _Row("query_threadpool_queue_capacity", "queryThreadPoolQueueCapacity", "Queries that may wait"),
    _Row("query_threadpoolqueue_headwait_timemills", "queryThreadPoolQueueHeadWaitTimeMills", "Longest wait now, ms"),
    *(
        _Row(f"{name}{seconds}", key, f"{text}, over the last {seconds} seconds", _word(number))
        for name, (key, text) in _RATES.items()
        for number, seconds in enumerate(_WINDOWS)
    ),
    *(
        _Row(f"pmdt_{name}", "putMessageDistributeTime", f"Puts of the last full minute that took {span}", _span(span))
        for name, span in _SPANS.items()
    ),
)
_METRICS = {row.suffix: Metric(f"rocketmq_brokeruntime_{row.suffix}", row.help, RUNTIME_LABELS) for row in _ROWS}
RUNTIME_METRICS = tuple(_METRICS.values())
"""All of these metrics."""


def runtime_families(address: str, info: Mapping[str, str]) -> Iterator[Family]:
    """Make the families.

    Args:
        address: what clients dial.
        info: the answer to GET_BROKER_RUNTIME_INFO.
    """
    labels = (address, info["brokerVersionDesc"], info["bootTimestamp"], info["brokerVersion"])
    for row in _ROWS:
        value = row.read(info[row.key]) if row.key in info else None
        if value is not None:
            yield _METRICS[row.suffix].of([(labels, value)])
