"""ConsumerRunningInfo: the internal state of a consumer, which administrators see through brokers.

Settings are sent under Java's names and in Java's units. Settings that Java does not have are left out, and so are all
secrets. Plays the part of consumerRunningInfo in DefaultMQPushConsumerImpl and DefaultLitePullConsumerImpl, and of
fillProcessQueueInfo.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import TYPE_CHECKING, Any

import attrs

from rocketpy._version import __version__
from rocketpy.consumer.rebalancing.allocate import java_name
from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.running import ConsumerRunningInfo, ProcessQueueInfo

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import ClientConfig
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.rates import ConsumerRates
    from rocketpy.wire.bodies.subscription import SubscriptionData
    from rocketpy.wire.enums import ConsumeType

__all__ = ["info_of", "queue_info"]

_VERSION = "V5_3_3"
"""The version that is reported to peers, so that they use every feature of it."""
_MIB = 1024 * 1024


def info_of(
    config: ClientConfig,
    client: MQClientInstance,
    subscriptions: list[SubscriptionData],
    rates: ConsumerRates,
    *,
    started_ms: int,
    consume_type: ConsumeType,
    properties: dict[str, str],
) -> ConsumerRunningInfo:
    """The state of a consumer without its queues.

    Args:
        config: the settings.
        client: knows the name servers.
        subscriptions: the subscriptions as heartbeats carry them.
        rates: recent figures for each topic.
        started_ms: when the consumer started, in ms since 1970.
        consume_type: whether it pushes or pulls.
        properties: further properties that Java's tools show.
    """
    return ConsumerRunningInfo(
        properties=_settings(config)
        | {
            "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in client.name_servers.addresses),
            "PROP_CONSUME_TYPE": consume_type.name,
            "PROP_CLIENT_VERSION": _VERSION,
            "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        }
        | properties,
        subscription_set=subscriptions,
        user_consumer_info={"rocketpy": __version__},  # what only this client reports
        status_table={each.topic: rates.of(each.topic).as_status() for each in subscriptions},
    )


def _settings(config: ClientConfig) -> dict[str, str]:
    found: dict[str, str] = {}
    for field in attrs.fields(type(config)):
        name = field.metadata.get("java")
        if name and field.repr:
            found |= {name: text} if (text := _text(field, getattr(config, field.name))) is not None else {}
    return found


def _text(field: attrs.Attribute[Any], value: Any) -> str | None:
    if field.name == "allocate_strategy":
        return java_name(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, int | float):
        return f"{round(value * field.metadata.get('scale', 1))}"
    return value if isinstance(value, str) else None


def queue_info(
    queue: ProcessQueue, committed: int | None, now: float, *, in_order: Collection[int] = (), locked: bool = False
) -> ProcessQueueInfo:
    """The state of one queue.

    Args:
        queue: the process queue.
        committed: the offset that is, or will be, committed; None if there is none.
        now: the time on the clock of the process queue, in seconds.
        in_order: in an orderly consumer, the offsets that are with a listener, or wait for its commit.
        locked: whether the consumer holds a valid lock on it.
    """
    wall = wall_ms()
    waiting = set(queue.offsets()).difference(in_order)
    return ProcessQueueInfo(
        commit_offset=-1 if committed is None else committed,
        cached_msg_min_offset=min(waiting, default=0),
        cached_msg_max_offset=max(waiting, default=0),
        cached_msg_count=len(waiting),
        cached_msg_size_in_mi_b=queue.size // _MIB,
        transaction_msg_min_offset=min(in_order, default=0),
        transaction_msg_max_offset=max(in_order, default=0),
        transaction_msg_count=len(in_order),
        locked=locked,
        try_unlock_times=queue.unlock_tries,
        last_lock_timestamp=wall - round((now - queue.last_lock) * 1000),
        # Java drops a queue before it tries to unlock it, so one that waits for its listener counts as dropped.
        droped=queue.dropped or queue.unlock_tries > 0,
        last_pull_timestamp=wall - round((now - queue.last_pull) * 1000),
        last_consume_timestamp=wall - round((now - queue.last_consume) * 1000),
    )
