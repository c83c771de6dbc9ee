"""Changing settings while a server runs: an allow-list of harmless keys, with types and bounds.

Keys that are not listed are refused: paths, addresses, ports, and all values that are executed or written elsewhere.
Changes are not written to the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocketpy.errors import BrokerError, ConfigError
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.config.keys import fields_by_key, read_value

__all__ = ["BROKER_UPDATES", "MAX_UPDATE", "NAMESRV_UPDATES", "update_settings"]

MAX_UPDATE = 32 * 1024
"""The largest request to change settings, in bytes."""

_MILLIS = (0, 3_600_000)
_PERIOD = (1, 3_600_000)
_COUNT = (1, 1_000_000)
_SWITCH = (0, 1)

BROKER_UPDATES: dict[str, tuple[int, int]] = {
    "allowRecallWhenBrokerNotWriteable": _SWITCH,
    "autoCreateSubscriptionGroup": _SWITCH,
    "autoCreateTopicEnable": _SWITCH,
    "brokerFastFailureEnable": _SWITCH,
    "brokerPermission": (0, 7),
    "defaultTopicQueueNums": (1, 1024),
    "enablePropertyFilter": _SWITCH,
    "filterSupportRetry": _SWITCH,
    "flushCommitLogLeastPages": _COUNT,
    "flushCommitLogThoroughInterval": _PERIOD,
    "flushConsumeQueueLeastPages": _COUNT,
    "flushConsumeQueueThoroughInterval": _PERIOD,
    "flushIntervalCommitLog": _PERIOD,
    "flushIntervalConsumeQueue": _PERIOD,
    "litePullMessageEnable": _SWITCH,
    "longPollingEnable": _SWITCH,
    "maxMessageSize": (1, 4 * 1024 * 1024),
    "notifyConsumerIdsChangedEnable": _SWITCH,
    "osPageCacheBusyTimeOutMills": _MILLIS,
    "recallMessageEnable": _SWITCH,
    "rejectPullConsumerEnable": _SWITCH,
    "rejectTransactionMessage": _SWITCH,
    "shortPollingTimeMills": _MILLIS,
    "slaveReadEnable": _SWITCH,
    "storeReplyMessageEnable": _SWITCH,
    "timerCongestNumEachSlot": (0, 2**31 - 1),
    "timerFlushIntervalMs": _PERIOD,
    "timerMaxDelaySec": (0, 2**31 - 1),
    "timerStopDequeue": _SWITCH,
    "timerStopEnqueue": _SWITCH,
    "traceOn": _SWITCH,
    "transactionCheckInterval": _PERIOD,
    "transactionCheckMax": (0, 1_000_000),
    "transactionTimeOut": _MILLIS,
    "useServerSideResetOffset": _SWITCH,
    "waitTimeMillsInAdminBrokerQueue": _MILLIS,
    "waitTimeMillsInHeartbeatQueue": _MILLIS,
    "waitTimeMillsInLitePullQueue": _MILLIS,
    "waitTimeMillsInPullQueue": _MILLIS,
    "waitTimeMillsInSendQueue": _MILLIS,
    "waitTimeMillsInTransactionQueue": _MILLIS,
}
"""Keys of a broker that may change, with the bounds of their values."""

NAMESRV_UPDATES: dict[str, tuple[int, int]] = {
    "deleteTopicWithBrokerRegistration": _SWITCH,
    "enableAllTopicList": _SWITCH,
    "enableTopicList": _SWITCH,
    "orderMessageEnable": _SWITCH,
    "returnOrderTopicConfigToBroker": _SWITCH,
    "waitSecondsForService": (0, 3600),
}
"""Keys of a name server that may change, with the bounds of their values."""


def update_settings(parts: list[Any], properties: Mapping[str, str], allowed: Mapping[str, tuple[int, int]]) -> None:
    """Change settings, either all of them or none.

    Raises:
        BrokerError: NO_PERMISSION if a key is not on the allow-list, INVALID_PARAMETER if a value is out of bounds.
    """
    owners = {key: (part, *field) for part in parts for key, field in fields_by_key(type(part)).items()}
    changes = []
    for key, text in properties.items():
        if key not in allowed or key not in owners:
            raise BrokerError.for_code(
                ResponseCode.NO_PERMISSION, f"the key {key[:64]!r} cannot be changed at run time"
            )
        part, name, kind = owners[key]
        changes.append((part, name, _bounded(key, text, kind, allowed[key])))
    for part, name, value in changes:
        setattr(part, name, value)


def _bounded(key: str, text: str, kind: Any, bounds: tuple[int, int]) -> Any:
    try:
        value = read_value(key, text, kind)
    except ConfigError as exc:
        raise BrokerError.for_code(ResponseCode.INVALID_PARAMETER, str(exc)) from exc
    if not bounds[0] <= value <= bounds[1]:
        raise BrokerError.for_code(
            ResponseCode.INVALID_PARAMETER, f"{key}={value} is not within {bounds[0]} and {bounds[1]}"
        )
    return value
