"""Which figures are shown of which statistics: a table for each kind of record.

Figures of topics have the names of RocketMQ's exporter where it has one; its times are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rocketpy.client.statistics import ClientStatistics
from rocketpy.consumer.lite.status import LitePullConsumerStatistics
from rocketpy.consumer.pull_statistics import PullConsumerStatistics
from rocketpy.consumer.push_statistics import PushConsumerStatistics
from rocketpy.producer.statistics import ProducerStatistics
from rocketpy.prometheus.figure import Figure, count, gauge, latency

__all__ = ["ROLES", "Part", "RoleFigures"]


def _sends(part: str) -> tuple[Figure, ...]:
    return (
        count(f"{part}sent_messages", "Messages that a broker has acknowledged", "sent"),
        count(f"{part}sent_bytes", "Bytes of the bodies of these messages, as they were sent", "sent_bytes"),
        count(f"{part}one_way_messages", "Messages that were sent one way", "one_way"),
        count(f"{part}send_failed_messages", "Messages whose send failed, after all its attempts", "failed"),
        count(f"{part}send_failed_tries", "Attempts of sends that failed", "failed_tries"),
        count(f"{part}send_retries", "Attempts after the first one of a send", "retries"),
        latency(f"{part}send", "Seconds from the start of an attempt to its acknowledgement", "latency"),
    )


_PRODUCER = (*_sends(""), gauge("sends_in_flight", "Sends that have begun and not ended", "in_flight"))
_OF_BROKER_SENT = (
    *_sends("broker_"),
    gauge("broker_send_requests_in_flight", "Requests to the broker that wait for an answer", "in_flight"),
)

_PULLS = (
    count("rebalances", "How often the queues of the group were shared out among its members", "rebalances"),
    count("offset_resets", "How often a broker moved a queue to another offset", "offset_resets"),
    count("filtered_messages", "Messages pulled and discarded: another tag with the same hash", "filtered"),
    count("undecodable_pulls", "Answers to pulls that contained a damaged message", "undecodable"),
)
_ANY_PULLS = (
    count("pulls", "Pulls that a broker has answered", "pulls"),
    count("pulled_messages", "Messages pulled", "pulled"),
)
_HELD = (
    gauge("held_messages", "Messages pulled that wait to be consumed", "held"),
    gauge("held_bytes", "Bytes of these messages", "held_bytes"),
    gauge(
        "consuming_messages",
        "Messages that listeners are consuming, or that polls returned and are not done",
        "in_flight",
    ),
)
_PUSH = (
    *_ANY_PULLS,
    *_PULLS,
    *_HELD,
    count("consumed_messages", "Messages that listeners consumed successfully", "consumed"),
    count("consume_failed_messages", "Messages whose listener call failed or took too long", "failed"),
    count("consume_timed_out_messages", "Messages whose listener call took too long", "timed_out"),
    count("sent_back_messages", "Messages sent back to a broker to be retried", "sent_back"),
    count("dropped_messages", "Messages that failed while broadcasting, which has no retries", "dropped"),
    count("retried_here_messages", "Messages that no broker took back", "retried_here"),
    count("duplicate_messages", "Messages kept from listeners because a copy was consumed", "duplicates"),
    latency("listener", "Seconds that calls of listeners took", "listener"),
)
_LITE = (
    *_ANY_PULLS,
    *_PULLS,
    *_HELD,
    count("handed_out_messages", "Messages returned by polls", "handed_out"),
    count("acknowledged_messages", "Messages acknowledged one by one", "acknowledged"),
)
_PULL = (
    *_ANY_PULLS,
    count("failed_pulls", "Pulls that failed", "failed"),
    gauge("pulls_in_flight", "Pulls that have begun and not ended", "in_flight"),
)
_OF_TOPIC = (
    gauge("consume_ok_msg_tps", "Messages consumed successfully a second, in the last minute", "consumed_per_second"),
    gauge("consume_fail_msg_tps", "Messages a second that failed, in the last minute", "failed_per_second"),
    gauge("consume_fail_msg_count", "Messages that failed in the last hour", "failed_in_hour"),
    gauge("consume_rt", "Milliseconds of a listener call, on average over the last minute", "consume_seconds", 1000),
    gauge("consumer_pull_tps", "Messages pulled a second, in the last minute", "pulled_per_second"),
    gauge("consumer_pull_rt", "Milliseconds of a pull that returned messages, on average", "pull_seconds", 1000),
    gauge("topic_consuming_messages", "Messages that are being consumed", "in_flight"),
)
_OF_BROKER = (
    gauge("broker_queues", "Queues of the broker that the consumer has", "queues"),
    gauge("broker_held_messages", "Messages pulled from it that wait to be consumed", "held"),
    gauge("broker_held_bytes", "Bytes of these messages", "held_bytes"),
    count("broker_pulled_messages", "Messages pulled from it", "pulled"),
    latency("broker_pull", "Seconds of pulls that returned messages", "latency"),
)

_CLIENT = (
    gauge("connections", "Open connections to brokers and name servers", "connections"),
    gauge("dialling", "Addresses to which connections are being opened", "dialling"),
    count("dials", "Attempts to open a connection", "dials"),
    count("failed_dials", "Attempts to open a connection that failed", "failed_dials"),
    gauge("addresses_failing", "Addresses that cannot be reached now", "addresses_failing"),
    gauge("requests_in_flight", "Requests that wait for an answer, held pulls included", "in_flight"),
    gauge("routed_topics", "Topics whose routes are known", "topics"),
    gauge("routed_brokers", "Brokers in these routes", "brokers"),
    count("heartbeats", "Heartbeats sent", "heartbeats"),
    count("failed_heartbeats", "Heartbeats without an answer, or refused", "failed_heartbeats"),
    gauge("brokers_answering", "Brokers that answered the last heartbeat", "brokers_answering"),
    gauge("replies_awaited", "Calls of request that wait for a reply", "replies_awaited"),
    count("replies", "Calls of request that got one", "replies"),
    count("late_replies", "Replies that came too late", "late_replies"),
    count("unknown_replies", "Replies to requests that this client did not make", "unknown_replies"),
    count("requests", "Answered requests other than sends and pulls", "requests"),
    count("failed_requests", "Such requests that failed", "failed_requests"),
    latency("request", "Seconds from such a request to its answer", "latency"),
)
_PEER = (
    gauge("peer_connections", "Open connections to the address", "connections"),
    gauge("peer_requests_in_flight", "Requests that wait for an answer from there", "in_flight"),
    gauge("peer_sent_bytes", "Bytes sent over the connections that are open now", "sent_bytes"),
    gauge("peer_received_bytes", "Bytes received over the connections that are open now", "received_bytes"),
)


class Part(NamedTuple):
    """Records within the statistics, by name.

    Attributes:
        label: The label for the name.
        records: Finds the records.
        figures: What is shown of each.
    """

    label: str
    records: Callable[[Any], Mapping[str, object]]
    figures: tuple[Figure, ...]


class RoleFigures(NamedTuple):
    """What is shown of one kind of producer, consumer or client.

    Attributes:
        role: What it is called in the label `role`.
        figures: What is shown of the whole.
        parts: What is shown of its parts.
    """

    role: str
    figures: tuple[Figure, ...]
    parts: tuple[Part, ...]


def _topics(statistics: Any) -> Mapping[str, object]:
    found: Mapping[str, object] = statistics.topics
    return found


def _brokers(statistics: Any) -> Mapping[str, object]:
    found: Mapping[str, object] = statistics.brokers
    return found


_CONSUMED = (Part("topic", _topics, _OF_TOPIC), Part("broker", _brokers, _OF_BROKER))

ROLES: Mapping[type, RoleFigures] = {
    ProducerStatistics: RoleFigures(
        "producer",
        _PRODUCER,
        (Part("topic", _topics, _sends("topic_")), Part("broker", _brokers, _OF_BROKER_SENT)),
    ),
    PushConsumerStatistics: RoleFigures("push_consumer", _PUSH, _CONSUMED),
    LitePullConsumerStatistics: RoleFigures("lite_pull_consumer", _LITE, _CONSUMED),
    PullConsumerStatistics: RoleFigures("pull_consumer", _PULL, _CONSUMED),
    ClientStatistics: RoleFigures("client", _CLIENT, (Part("address", lambda statistics: statistics.peers, _PEER),)),
}
"""By the class of the statistics."""
