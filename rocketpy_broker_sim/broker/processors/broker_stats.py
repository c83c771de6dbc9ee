"""Statistics of topics, queues and groups: VIEW_BROKER_STATS_DATA. Plays a part of AdminBrokerProcessor.

A statistic has a name and a key, in the forms that Java's tools use. The statistics of consumption by POP, of dead
letters and of the cloud edition of Apache's broker do not exist here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rocketpy.logs import quote
from rocketpy.wire.bodies.stats import BrokerStatsData, BrokerStatsItem
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.headers.admin import ViewBrokerStatsDataRequestHeader
from rocketpy_broker_sim.broker.flow import DAY, HOUR, MINUTE, Amount

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.admin_views import FlowView
    from rocketpy_broker_sim.broker.flow import Flow
    from rocketpy_broker_sim.serving.slices import Steps

__all__ = ["view_stats"]

_Value = Callable[[Amount], int]

_SEPARATOR = "@"
"""Stands between the parts of a key; no name can contain it."""
_DIGITS = 10
"""Digits of the number of a queue."""


def _messages(amount: Amount) -> int:
    return amount.messages


def _size(amount: Amount) -> int:
    return amount.size


def _millis(amount: Amount) -> int:
    return amount.micros // 1000


_OF_TOPICS: dict[str, tuple[_Value, str, str]] = {
    "TOPIC_PUT_NUMS": (_messages, "put", "topic"),
    "TOPIC_PUT_SIZE": (_size, "put", "topic"),
    "TOPIC_PUT_LATENCY": (_millis, "put", "queue@topic"),
    "QUEUE_PUT_NUMS": (_messages, "put", "topic@queue"),
    "QUEUE_PUT_SIZE": (_size, "put", "topic@queue"),
    "GROUP_GET_NUMS": (_messages, "get", "topic@group"),
    "GROUP_GET_SIZE": (_size, "get", "topic@group"),
    "GROUP_GET_LATENCY": (_millis, "get", "queue@topic@group"),
    "QUEUE_GET_NUMS": (_messages, "get", "topic@queue@group"),
    "QUEUE_GET_SIZE": (_size, "get", "topic@queue@group"),
    "SNDBCK_PUT_NUMS": (_messages, "back", "topic@group"),
}
"""By name: what is counted, in which direction, and the form of the key."""
_OF_BROKER = {
    "BROKER_PUT_NUMS": ("put", False),
    "BROKER_GET_NUMS": ("get", False),
    "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC": ("put", True),
    "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC": ("get", True),
}
"""By name: the direction, and whether only user topics count. The key is the name of the cluster."""


def view_stats(broker: FlowView, connection: Connection, request: RemotingCommand) -> Steps:
    """One statistic over the last minute, hour and day. A sliced processor."""
    header = ViewBrokerStatsDataRequestHeader.from_ext(request.ext_fields)
    name, key = header.stats_name, header.stats_key
    yield from broker.flows.add_steps()
    flow = _find(broker, name, key)
    if flow is None:
        return request.answer(ResponseCode.SYSTEM_ERROR, f"The stats <{quote(name)}> <{quote(key)}> not exist")
    value = _OF_TOPICS[name][0] if name in _OF_TOPICS else _messages
    minute, hour, day = (_item(flow, window, value) for window in (MINUTE, HOUR, DAY))
    return request.answer(body=BrokerStatsData(stats_minute=minute, stats_hour=hour, stats_day=day).encode())


def _item(flow: Flow, window: int, value: _Value) -> BrokerStatsItem:
    amount, seconds = flow.over(window, trio.current_time())
    total = value(amount)
    return BrokerStatsItem(sum=total, tps=total / seconds, avgpt=total / amount.calls if amount.calls else 0.0)


def _find(broker: FlowView, name: str, key: str) -> Flow | None:
    if name in _OF_BROKER:
        way, of_users = _OF_BROKER[name]
        return broker.flows.whole(way, of_users=of_users) if key == broker.config.broker_cluster_name else None
    if name not in _OF_TOPICS:
        return None
    _, way, form = _OF_TOPICS[name]
    names, parts = form.split(_SEPARATOR), key.split(_SEPARATOR, form.count(_SEPARATOR))
    if len(parts) != len(names):
        return None
    named: dict[str, str | int] = dict(zip(names, parts, strict=True))
    if "queue" in named:
        queue = str(named["queue"])
        if not (queue.isascii() and queue.isdecimal() and len(queue) <= _DIGITS):
            return None
        named["queue"] = int(queue)
    rest = [named[part] for part in ("queue", "group") if part in named]
    return broker.flows.of_topic(str(named["topic"]), way, *rest)
