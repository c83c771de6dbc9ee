"""Encodes trace records: text with one character between fields and another one after each record. Pure.

A missing value is the word "null", as in Java. Plays the part of the encoding half of TraceDataEncoder.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from rocketpy.results import LocalTransactionState

__all__ = [
    "FALSE",
    "FIELD",
    "KINDS",
    "RECORD",
    "STATES",
    "TRUE",
    "ContextCode",
    "MessageType",
    "end_transaction",
    "found_by",
    "pub",
    "recall",
    "sub_after",
    "sub_before",
]

FIELD: Final = "\x01"
"""Separates fields."""
RECORD: Final = "\x02"
"""Ends a record."""
_MISSING: Final = "null"


class MessageType(IntEnum):
    """The kinds of messages, by their numbers in a record. Plays the part of MessageType."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3
    ORDER = 4


class ContextCode(IntEnum):
    """How a listener ended, by its number in a record. Plays the part of ConsumeReturnType."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


STATES: Final = {
    LocalTransactionState.COMMIT: "COMMIT_MESSAGE",
    LocalTransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    LocalTransactionState.UNKNOWN: "UNKNOW",
}
"""The names of states in records, with Java's spelling."""


TRUE, FALSE = f"true{RECORD}", f"false{RECORD}"
"""Whether a send succeeded: the last field of a record, with its end."""
KINDS: Final = {kind: str(int(kind)) for kind in MessageType}


def _flag(value: bool) -> str:
    return "true" if value else "false"


def pub(
    timestamp: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str | None,
    keys: str | None,
    address: str,
    size: int,
    cost: int,
    kind: str,
    offset_message_id: str | None,
    success: str,
) -> str:
    """The record of a sent message. Times are in milliseconds, `size` is that of the body, `kind` is one of `KINDS`,
    and `success` is TRUE or FALSE.

    It is made for each message that is sent; joining takes half as long as any other way to format.
    """
    return FIELD.join(
        (
            "Pub",
            str(timestamp),
            region,
            group,
            topic,
            message_id,
            _MISSING if tags is None else tags,
            _MISSING if keys is None else keys,
            address,
            str(size),
            str(cost),
            kind,
            _MISSING if offset_message_id is None else offset_message_id,
            success,
        )
    )


def sub_before(
    timestamp: int, region: str, group: str, request_id: str, message_id: str, retry_times: int, keys: str | None
) -> str:
    """The record of a message with which a listener is about to be called."""
    return (
        f"SubBefore\x01{timestamp}\x01{region}\x01{group}\x01{request_id}\x01{message_id}\x01{retry_times}\x01"
        f"{_MISSING if keys is None else keys}\x02"
    )


def sub_after(
    request_id: str,
    message_id: str,
    cost: int,
    keys: str | None,
    code: int,
    timestamp: int,
    group: str,
    *,
    success: bool,
) -> str:
    """The record of a message after the listener call; `code` is a `ContextCode`."""
    return (
        f"SubAfter\x01{request_id}\x01{message_id}\x01{cost}\x01{_flag(success)}\x01"
        f"{_MISSING if keys is None else keys}\x01{code:d}\x01{timestamp}\x01{group}\x02"
    )


def end_transaction(
    timestamp: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tags: str | None,
    keys: str | None,
    address: str,
    kind: int,
    transaction_id: str | None,
    state: LocalTransactionState,
    *,
    from_check: bool,
) -> str:
    """The record of a transaction whose state is about to be sent to a broker."""
    fields = (
        "EndTransaction",
        str(timestamp),
        region,
        group,
        topic,
        message_id,
        _MISSING if tags is None else tags,
        _MISSING if keys is None else keys,
        address,
        str(int(kind)),
        _MISSING if transaction_id is None else transaction_id,
        STATES[state],
        _flag(from_check),
    )
    return FIELD.join(fields) + RECORD


def recall(timestamp: int, region: str, group: str, topic: str, message_id: str, *, success: bool) -> str:
    """The record of a recall that a broker has answered."""
    return FIELD.join(("Recall", str(timestamp), region, group, topic, message_id, _flag(success))) + RECORD


def found_by(message_ids: str, keys: str | None) -> str:
    """The keys under which a record can be queried, separated by spaces: the ids of its messages, then their keys."""
    return message_ids if not keys else f"{message_ids} {' '.join(keys.split())}"
