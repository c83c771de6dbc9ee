"""The figures of brokers that "rocketpy cluster export metrics" writes, under the names of mqadmin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocketpy.admin import BrokerRuntime
    from rocketpy.sync import Admin

__all__ = ["broker_figures", "totals"]

_OF_TRANSACTIONS = "RMQ_SYS_TRANS_HALF_TOPIC"
_OF_DELAYS = "SCHEDULE_TOPIC_XXXX"


def broker_figures(admin: Admin, broker: str) -> dict[str, Any]:
    """The figures of one broker.

    Raises:
        RocketMQError: it does not answer, or refuses.
    """
    state = admin.brokers.runtime(broker)
    groups = sorted({each.group for each in admin.groups.get_all(brokers=[broker])})
    topics = admin.topics.get_all(brokers=[broker])
    halves, delayed = _stored(admin, broker, _OF_TRANSACTIONS), _stored(admin, broker, _OF_DELAYS)
    values = state.values
    return {
        "runtimeEnv": {
            "cpuNum": admin.brokers.config(broker).settings.get("clientCallbackExecutorThreads"),
            "totalMemKBytes": values.get("totalMemKBytes"),
        },
        "runtimeVersion": {"rocketmqVersion": state.version, "clientInfo": _clients(admin, groups)},
        "runtimeQuota": {
            "diskRatio": {name: values.get(name) for name in ("commitLogDiskRatio", "consumeQueueDiskRatio")},
            "tps": {
                "normalInTps": state.put_rate or 0.0,
                "normalOutTps": state.get_rate or 0.0,
                "transInTps": halves[0],
                "scheduleInTps": delayed[0],
            },
            "oneDayNum": {
                "normalOneDayInNum": _yesterday(state, "msgPutTotal"),
                "normalOneDayOutNum": _yesterday(state, "msgGetTotal"),
                "transOneDayInNum": halves[1],
                "scheduleOneDayInNum": delayed[1],
            },
            "messageAverageSize": values.get("putMessageAverageSize"),
            "topicSize": len(topics),
            "groupSize": len(groups),
        },
    }


def totals(brokers: Iterable[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The sums over all brokers."""
    quotas = [each["runtimeQuota"] for each in brokers]
    return {
        "totalTps": {
            f"total{name[0].upper()}{name[1:]}": sum(each["tps"][name] for each in quotas)
            for name in ("normalInTps", "normalOutTps", "transInTps", "scheduleInTps")
        },
        "totalOneDayNum": {
            name: sum(each["oneDayNum"][name] for each in quotas)
            for name in ("normalOneDayInNum", "normalOneDayOutNum", "transOneDayInNum", "scheduleOneDayInNum")
        },
    }


def _stored(admin: Admin, broker: str, topic: str) -> tuple[float, int]:
    """Messages of a topic that were stored a second in the last minute, and in the last day."""
    found = admin.brokers.stats(broker, "TOPIC_PUT_NUMS", topic)
    if found is None:
        return 0.0, 0
    return found.minute.rate, found.day.sum or found.hour.sum or found.minute.sum


def _yesterday(state: BrokerRuntime, name: str) -> int:
    """Messages between the midnight of yesterday and that of today."""
    today, yesterday = (state.values.get(f"{name}{day}Morning", "") for day in ("Today", "Yesterday"))
    return int(today) - int(yesterday) if today.isdecimal() and yesterday.isdecimal() else 0


def _clients(admin: Admin, groups: Iterable[str]) -> list[str]:
    """The languages and versions of connected consumers."""
    from rocketpy.errors import RocketMQError

    found: set[str] = set()
    for group in groups:
        try:
            found |= {f"{each.language}%{each.version}" for each in admin.consumers.connections(group).clients}
        except RocketMQError:  # the group is gone meanwhile, or another broker does not answer
            continue
    return sorted(found)
