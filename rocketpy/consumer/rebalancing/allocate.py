"""Allocation: every member of a group computes for itself which queues it consumes, and all must agree. Pure.

A strategy (see `strategies`) gets the queues of one topic and the ids of the members, both sorted as Java sorts them,
and returns the queues of one member. It may be a function of the user's, so what it returns is checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from types import BuiltinFunctionType, FunctionType

from rocketpy.config.strategy_names import AVERAGELY, BY_CIRCLE, CONSISTENT_HASH
from rocketpy.consumer.listeners import is_ctrl_c
from rocketpy.consumer.rebalancing.strategies import (
    AllocateAveragely,
    AllocateByCircle,
    AllocateByConfig,
    AllocateByMachineRoom,
    AllocateConsistentHash,
    AllocateMachineRoomNearby,
    AllocateRequest,
    AllocateStrategy,
)
from rocketpy.errors import ConfigError
from rocketpy.logs import error_text, shown
from rocketpy.message import MessageQueue

__all__ = ["allocate", "are_unlike", "java_name", "java_sorted", "strategy"]

_STRATEGIES: dict[str, AllocateStrategy] = {
    AVERAGELY: AllocateAveragely(),
    BY_CIRCLE: AllocateByCircle(),
    CONSISTENT_HASH: AllocateConsistentHash(),
}
_JAVA_NAMES: dict[type, str] = {
    kind: f"org.apache.rocketmq.client.consumer.rebalance.{name}"
    for kind, name in {
        AllocateAveragely: "AllocateMessageQueueAveragely",
        AllocateByCircle: "AllocateMessageQueueAveragelyByCircle",
        AllocateByConfig: "AllocateMessageQueueByConfig",
        AllocateByMachineRoom: "AllocateMessageQueueByMachineRoom",
        AllocateConsistentHash: "AllocateMessageQueueConsistentHash",
        AllocateMachineRoomNearby: "AllocateMachineRoomNearby",
    }.items()
}


def strategy(setting: str | AllocateStrategy) -> AllocateStrategy:
    """The strategy that a setting names; a setting that is a strategy itself is returned as it is.

    Raises:
        ConfigError: no strategy has that name.
    """
    if not isinstance(setting, str):
        return setting
    found = _STRATEGIES.get(setting)
    if found is None:
        raise ConfigError(f"there is no allocation strategy {setting!r}, only {', '.join(_STRATEGIES)}")
    return found


def java_name(setting: str | AllocateStrategy) -> str:
    """What a strategy is called in running infos: as its class in Java, a user's own by its module and name.

    Raises:
        ConfigError: no strategy has that name.
    """
    found = strategy(setting)
    kind = found if type(found) in (FunctionType, BuiltinFunctionType) else type(found)
    return _JAVA_NAMES.get(type(found)) or f"{kind.__module__}.{kind.__qualname__}"


def are_unlike(one: str, other: str) -> bool:
    """Whether two strategies differ, by their names in running infos; two of users' own may be the same."""
    return one != other and not {one, other}.isdisjoint(_JAVA_NAMES.values())


def allocate(
    share_out: AllocateStrategy,
    queues: Collection[MessageQueue],
    ids: Collection[str],
    client_id: str,
    *,
    group: str = "",
    topic: str = "",
) -> list[MessageQueue]:
    """The queues of one member, sorted; none if `client_id` is not among the group's `ids`.

    Raises:
        ConfigError: the strategy raised an exception, or returned something other than queues of this topic.
    """
    members = java_sorted(ids)
    if client_id not in members or not queues:
        return []
    request = AllocateRequest(group, topic, client_id, tuple(sorted(queues)), tuple(members))
    try:
        return sorted(_checked(share_out(request), request))
    except BaseException as error:  # what it raises is its own failure, SystemExit included
        if is_ctrl_c(error):
            raise
        raise ConfigError(
            f"allocate_strategy {shown(share_out)} failed for {topic}; this member keeps its queues, and calls it "
            f"again soon: {error_text(error)}"
        ) from error


def _checked(answer: object, request: AllocateRequest) -> set[MessageQueue]:
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise TypeError(f"it returned {shown(answer)} instead of a list of queues")
    known = set(request.queues)
    found: set[MessageQueue] = set()
    for queue in answer:
        if not isinstance(queue, MessageQueue) or queue not in known:
            raise ValueError(f"it returned {shown(queue)}, which is not one of the {len(known)} queues in the request")
        found.add(queue)
    return found


def java_sorted(texts: Collection[str]) -> list[str]:
    """Each text once, in the order of Java's String.compareTo: by UTF-16 code units."""
    return sorted(set(texts), key=lambda text: text.encode("utf-16-be", "surrogatepass"))
