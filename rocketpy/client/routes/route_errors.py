"""The errors of failed lookups of routes, one for each cause."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocketpy.client.routes.publish_info import NoQueue
from rocketpy.errors import (
    BrokerUnreachableError,
    NameServerUnreachableError,
    RocketMQError,
    TopicNotExistError,
    TopicNotFoundError,
    TopicNotWritableError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketpy.client.routes.publish_info import TopicRoute
    from rocketpy.errors import RouteNotFoundError

__all__ = ["cause_of", "no_broker", "no_master", "route_error", "unusable"]


def no_broker(trouble: str, topic: str, name_server: str) -> BrokerUnreachableError:
    """The error for a topic while no broker at all is registered with the name servers."""
    return BrokerUnreachableError(
        f"{trouble}: no broker is registered with the name server {name_server}: the broker is "
        "down, has not registered yet, or uses other name servers",
        topic=topic,
        tried=(name_server,),
    )


def no_master(topic: str, addresses: Sequence[str]) -> BrokerUnreachableError:
    """The error for a topic that cannot be created, as no registered broker has a master with a usable address."""
    return BrokerUnreachableError(
        f"the topic {topic} cannot be created: no registered broker has a master with a usable address (addresses "
        f"given: {', '.join(addresses) or 'none'}); start a master, correct brokerIP1 of the brokers, or rewrite their "
        "addresses with address_map",
        topic=topic,
        tried=addresses,
    )


def route_error(topic: str, error: RocketMQError) -> RouteNotFoundError | None:
    """The error to raise for a failed lookup, None to raise its own."""
    if isinstance(error, NameServerUnreachableError):
        return NameServerUnreachableError(f"no route to the topic {topic}: {error}", topic=topic, tried=error.tried)
    if isinstance(error, TopicNotExistError):
        return TopicNotFoundError(
            f"the topic {topic} does not exist: create it, or let brokers create topics (autoCreateTopicEnable); "
            + _answer(topic, error),
            topic=topic,
            tried=(error.address,) if error.address else (),
        )
    return None


def cause_of(error: RocketMQError) -> BaseException:
    """What to name as the cause of the error for a failed lookup: its text has that of an unreachable name server."""
    if isinstance(error, NameServerUnreachableError) and error.__cause__ is not None:
        return error.__cause__
    return error


def _answer(topic: str, error: TopicNotExistError) -> str:
    """The name server's remark, unless it is about the default topic, which the user has not asked for."""
    if topic in re.split(r"[^\w%|-]+", error.remark or ""):
        return f"the name server {error.address} says: {error.remark}"
    return f"asked last was the name server {error.address}"


def unusable(route: TopicRoute, why: NoQueue, verb: str) -> RouteNotFoundError:
    """The error for a topic that exists but has no usable queue."""
    if why is NoQueue.PERMISSION:
        return TopicNotWritableError(
            f"the topic {route.topic} may not be {verb}: no broker grants it; change the permission of the topic, or "
            "of the broker if it was taken out of service",
            topic=route.topic,
        )
    advice = {
        NoQueue.NO_MASTER: "start a master, or wait until the name servers see it",
        NoQueue.NO_ADDRESS: "correct brokerIP1 of the brokers, or rewrite their addresses with address_map",
    }
    where = ", ".join(route.addresses) or "none"
    return BrokerUnreachableError(
        f"the topic {route.topic} cannot be {verb}: {why.value} (addresses given: {where}); {advice[why]}",
        topic=route.topic,
        tried=route.addresses,
    )
