"""The metrics of the parts of a broker, with a function for each part that makes them.

RocketMQ's exporter has no names for these. Times are in seconds and sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from rocketpy.seams import wall_ms
from rocketpy.wire.names import SCHEDULE_TOPIC, TRANSACTION_HALF_TOPIC
from rocketpy_broker_sim.broker.delays.delay import queue_of_level
from rocketpy_broker_sim.broker.held_requests.waiter_index import Reason
from rocketpy_broker_sim.broker.transactions.half import HALF_QUEUE
from rocketpy_broker_sim.metrics.metric import Family, Kind, Metric
from rocketpy_broker_sim.store.running_flags import RunningFlag

if TYPE_CHECKING:
    from rocketpy.remoting.server import RemotingServer
    from rocketpy.seams import Storage
    from rocketpy_broker_sim.broker.delays.schedule import ScheduleService
    from rocketpy_broker_sim.broker.flushing.gate import Durability
    from rocketpy_broker_sim.broker.held_requests.waiters import Waiters
    from rocketpy_broker_sim.broker.lane import LaneStatistics
    from rocketpy_broker_sim.broker.lanes import Lanes
    from rocketpy_broker_sim.broker.statistics import BrokerStatistics
    from rocketpy_broker_sim.broker.tables.consumers import ConsumerTable
    from rocketpy_broker_sim.broker.tables.producers import ProducerTable
    from rocketpy_broker_sim.broker.timer.service import TimerService
    from rocketpy_broker_sim.broker.to_clients.reply_pushes import ReplyPushes
    from rocketpy_broker_sim.broker.transactions.ledger import Ledger
    from rocketpy_broker_sim.metrics.metric import Sample
    from rocketpy_broker_sim.store.message_store import MessageStore
    from rocketpy_broker_sim.store.timer.store import TimerStore

__all__ = [
    "PART_METRICS",
    "metrics_of_clients",
    "metrics_of_delays",
    "metrics_of_lanes",
    "metrics_of_messages",
    "metrics_of_naming",
    "metrics_of_replies",
    "metrics_of_server",
    "metrics_of_store",
    "metrics_of_timer",
    "metrics_of_transactions",
    "metrics_of_waiters",
]

_COUNTER = Kind.COUNTER

_PUT = Metric("rocketmq_messages_put_total", "Messages stored since the start", kind=_COUNTER)
_GOT = Metric("rocketmq_messages_got_total", "Messages pulled since the start", kind=_COUNTER)
_PULLS = Metric(
    "rocketmq_pulls_total", "Pulls since the start: those that found messages, or none", ("found",), _COUNTER
)
_LOG_BYTES = Metric("rocketmq_log_bytes_total", "The position of the end of the log", kind=_COUNTER)
_FLUSH_BEHIND = Metric("rocketmq_flush_behind_bytes", "Bytes of the log that are not on the disk yet")
_ANSWERS_WAITING = Metric("rocketmq_answers_waiting", "Answers to sends that wait for the disk or a name server")
_FLAGS = Metric("rocketmq_store_flag", "1 for each reason not to write or read the store", ("flag",))
_DISK = Metric("rocketmq_disk_bytes", "Bytes of the disk of the store: all of them, or those that are free", ("kind",))
_LANE_WAITING = Metric("rocketmq_lane_waiting", "Requests that wait for their turn", ("lane",))
_LANE_CAPACITY = Metric("rocketmq_lane_capacity", "Requests that may wait", ("lane",))
_LANE_OLDEST = Metric("rocketmq_lane_oldest_seconds", "Seconds that the first of them has waited", ("lane",))
_LANE_DONE = Metric("rocketmq_lane_requests_total", "Requests carried out", ("lane",), _COUNTER)
_LANE_REFUSED = Metric(
    "rocketmq_lane_refused_total",
    "Requests refused: the lane was full (overloaded), or they had waited for too long (timedOut)",
    ("lane", "reason"),
    _COUNTER,
)
_HELD = Metric("rocketmq_held_pulls", "Pulls that wait for messages")
_HELD_BYTES = Metric("rocketmq_held_pull_bytes", "Bytes that are kept for them")
_HELD_ENDED = Metric(
    "rocketmq_held_pulls_ended_total", "Pulls that have stopped waiting, by reason", ("reason",), _COUNTER
)
_CONNECTIONS = Metric("rocketmq_connections", "Open connections")
_KEPT = Metric("rocketmq_kept_bytes", "Bytes that the broker keeps for its peers, tables included")
_CLIENTS = Metric(
    "rocketmq_client_connections", "Connections of clients in groups of this role: consumer or producer", ("role",)
)
_DELAY_OFFSET = Metric(
    "rocketmq_delay_level_delivered_total", "Messages of a delay level that were delivered", ("level",), _COUNTER
)
_DELAY_WAITING = Metric("rocketmq_delay_level_waiting_messages", "Messages of a delay level that wait", ("level",))
_TIMER_WAITING = Metric("rocketmq_timer_waiting_messages", "Messages with a time of delivery that wait")
_TIMER_BEHIND = Metric("rocketmq_timer_behind_seconds", "Seconds by which the oldest of them is overdue")
_TIMER_UNREAD = Metric("rocketmq_timer_unread_messages", "Such messages that the timer has not read yet")
_TRANSACTIONS = Metric("rocketmq_open_transactions", "Transactions that have not ended")
_ENDED = Metric(
    "rocketmq_transactions_ended_total",
    "Transactions that have ended: committed, rolledBack or discarded",
    ("end",),
    _COUNTER,
)
_CHECKS = Metric(
    "rocketmq_transaction_checks_total",
    "Checks of transactions: sent to a producer, or noProducer",
    ("sent",),
    _COUNTER,
)
_HALF_BEHIND = Metric("rocketmq_half_messages", "Half messages since the oldest one that has not ended")
_REPLIES = Metric("rocketmq_replies_pushed_total", "Replies pushed to clients, by result", ("result",), _COUNTER)
_NAME_SERVERS = Metric("rocketmq_name_servers", "Name servers: all of them, or those that know the broker", ("known",))
_REPLIES_WAITING = Metric("rocketmq_replies_waiting", "Replies that clients have not answered yet")

PART_METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All of these metrics."""


def metrics_of_messages(statistics: BrokerStatistics) -> Iterator[Family]:
    """How many messages came and went."""
    totals = statistics.totals()
    yield _PUT.value(totals.put)
    yield _GOT.value(totals.transferred)
    yield _PULLS.of([(("true",), totals.found), (("false",), totals.missed)])


def metrics_of_store(store: MessageStore, storage: Storage, gate: Durability) -> Iterator[Family]:
    """How far the log goes and is flushed, and how full the disk is."""
    yield _LOG_BYTES.value(store.written_position)
    yield _FLUSH_BEHIND.value(store.written_position - store.flushed_position)
    yield _ANSWERS_WAITING.value(len(gate))
    yield _FLAGS.of(((flag.name or "",), int(store.flags.has(flag))) for flag in RunningFlag)
    yield _DISK.of(_space(storage))


def _space(storage: Storage) -> Iterator[Sample]:
    total, free = storage.space()
    if total:
        yield ("total",), total
        yield ("free",), free


def metrics_of_lanes(lanes: Lanes) -> Iterator[Family]:
    """How full the lanes are, and what they have done."""
    found = lanes.statistics()

    def each(read: Callable[[LaneStatistics], float]) -> Iterable[Sample]:
        return (((name,), read(lane)) for name, lane in found.items())

    yield _LANE_WAITING.of(each(lambda lane: lane.waiting))
    yield _LANE_CAPACITY.of(each(lambda lane: lane.capacity))
    yield _LANE_OLDEST.of(each(lambda lane: lane.oldest))
    yield _LANE_DONE.of(each(lambda lane: lane.done))
    yield _LANE_REFUSED.of(_refused(found))


def _refused(found: dict[str, LaneStatistics]) -> Iterator[Sample]:
    for name, lane in found.items():
        yield (name, "overloaded"), lane.overloaded
        yield (name, "timedOut"), lane.timed_out


def metrics_of_server(server: RemotingServer | None) -> Iterator[Family]:
    """Who is connected, and what is kept for them."""
    if server is not None:
        yield _CONNECTIONS.value(len(server.connections))
        yield _KEPT.value(server.budget.kept + server.budget.tables)


def metrics_of_waiters(waiters: Waiters) -> Iterator[Family]:
    """How many pulls wait, and why others wait no longer."""
    yield _HELD.value(len(waiters))
    yield _HELD_BYTES.value(waiters.size)
    yield _HELD_ENDED.of(((reason.value,), waiters.counts[reason]) for reason in Reason)


def metrics_of_clients(consumers: ConsumerTable, producers: ProducerTable) -> Iterator[Family]:
    """How many connections are in groups."""
    yield _CLIENTS.of(_roles(consumers, producers))


def _roles(consumers: ConsumerTable, producers: ProducerTable) -> Iterator[Sample | None]:
    members: set[object] = set()
    for group in consumers.groups():
        members.update(group.clients)
        yield None
    yield ("consumer",), len(members)
    members = set()
    for name in producers.groups():
        members.update(client.channel for client in producers.clients(name))
        yield None
    yield ("producer",), len(members)


def metrics_of_delays(schedule: ScheduleService, end: Callable[[str, int], int]) -> Iterator[Family]:
    """How far each delay level has been delivered, and how many messages wait there."""
    progress = schedule.progress()
    yield _DELAY_OFFSET.of(((str(level),), offset) for level, offset in progress.items())
    yield _DELAY_WAITING.of(
        ((str(level),), max(0, end(SCHEDULE_TOPIC, queue_of_level(level)) - offset))
        for level, offset in progress.items()
    )


def metrics_of_timer(service: TimerService, timers: TimerStore) -> Iterator[Family]:
    """How far the timer is behind, and how many messages wait."""
    oldest = timers.wheel.oldest()
    behind = 0 if oldest is None else wall_ms() - oldest * timers.precision - timers.precision
    yield _TIMER_WAITING.value(timers.wheel.waiting)
    yield _TIMER_BEHIND.value(max(0, behind) / 1000)
    yield _TIMER_UNREAD.value(service.enqueue.behind)


def metrics_of_transactions(ledger: Ledger, end: Callable[[str, int], int]) -> Iterator[Family]:
    """How many transactions are open, and how the others have ended."""
    yield _TRANSACTIONS.value(sum(ledger.metrics.counts().values()))
    ends = {"committed": ledger.commits, "rolledBack": ledger.rollbacks, "discarded": ledger.discarded}
    yield _ENDED.of(((name,), count) for name, count in ends.items())
    yield _CHECKS.of([(("true",), ledger.asked), (("noProducer",), ledger.nobody_to_ask)])
    yield _HALF_BEHIND.value(max(0, end(TRANSACTION_HALF_TOPIC, HALF_QUEUE) - ledger.window.base))


def metrics_of_naming(wanted: int, known: int) -> Iterator[Family]:
    """How many name servers there are, and how many know the broker."""
    yield _NAME_SERVERS.of([(("all",), wanted), (("true",), known)])


def metrics_of_replies(pushes: ReplyPushes) -> Iterator[Family]:
    """How many replies were pushed."""
    yield _REPLIES.of([(("pushed",), pushes.pushed), (("failed",), pushes.failed)])
    yield _REPLIES_WAITING.value(len(pushes))
