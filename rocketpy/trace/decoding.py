"""Decodes the trace records in messages of the trace topic. Pure.

Plays the part of the decoding half of TraceDataEncoder, and of TraceContext and TraceBean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from rocketpy.errors import ConfigError, MessageDecodeError
from rocketpy.reprs import Short
from rocketpy.results import LocalTransactionState
from rocketpy.trace.records import FIELD, RECORD, STATES, ContextCode, MessageType

__all__ = ["TraceRecord", "decode_traces"]

_STATES: Final = {text: state for state, text in STATES.items()}
_FLAGS: Final = {"true": True, "false": False}


@attrs.frozen(kw_only=True, repr=False)
class TraceRecord(Short):
    """One trace record. Fields that its kind does not have are None."""

    kind: str
    """Pub, SubBefore, SubAfter, EndTransaction or Recall."""
    message_id: str
    """The unique id of the message; for a batch, the ids of its messages, joined by commas."""
    timestamp: int | None = None
    """The time in milliseconds since 1970."""
    region: str | None = None
    """The region of the broker."""
    group: str | None = None
    """The group of the producer or consumer."""
    topic: str | None = None
    tags: str | None = None
    keys: str | None = None
    """The keys of the message, separated by spaces."""
    store_host: str | None = None
    """The address of the broker."""
    body_length: int | None = None
    """The size of the body in bytes."""
    cost: int | None = None
    """The duration of the send, or of the listener call divided by the number of its messages, in milliseconds."""
    message_type: MessageType | None = None
    """Whether the message was a normal, delayed, half or committed one."""
    offset_message_id: str | None = None
    success: bool | None = None
    """Whether the send, the listener call or the recall succeeded."""
    client_host: str | None = None
    """The address of the client; only some versions of Java's client write it."""
    request_id: str | None = None
    """An id that SubBefore and SubAfter of one listener call have in common."""
    retry_times: int | None = None
    """How often the message was retried before."""
    context_code: ContextCode | None = None
    """How the listener call ended."""
    transaction_id: str | None = None
    transaction_state: LocalTransactionState | None = None
    from_check: bool | None = None
    """Whether the state was sent as the answer to a check."""


def decode_traces(body: bytes) -> list[TraceRecord]:
    """Decode the records in the body of a message of the trace topic. Records of unknown kinds are left out.

    Raises:
        MessageDecodeError: the body is not made of trace records.
        ConfigError: this is no body.
    """
    if not isinstance(body, bytes | bytearray):
        raise ConfigError(f"decode_traces takes bytes, the body of a message (message.body), not {body!r:.100}")
    try:
        text = body.decode()
    except UnicodeDecodeError as exc:
        raise MessageDecodeError(f"the body of {len(body)} bytes is not a trace: {exc}") from exc
    records = []
    for line in text.split(RECORD):
        kind, _, rest = line.partition(FIELD)
        if kind in _READERS:
            records.append(_read(kind, rest.split(FIELD)))
    return records


def _read(kind: str, fields: list[str]) -> TraceRecord:
    try:
        return _READERS[kind](fields)
    except (IndexError, KeyError, ValueError) as exc:
        raise MessageDecodeError(f"a trace record {kind} with {len(fields)} fields cannot be read: {exc!r}") from exc


def _text(value: str) -> str | None:
    return None if value == "null" else value


def _pub(fields: list[str]) -> TraceRecord:
    # The oldest form has no offset message id; some versions of 4.x add the host of the client.
    offset_id, success = (None, fields[11]) if len(fields) == 12 else (_text(fields[11]), fields[12])
    return TraceRecord(
        kind="Pub",
        timestamp=int(fields[0]),
        region=fields[1],
        group=fields[2],
        topic=fields[3],
        message_id=fields[4],
        tags=_text(fields[5]),
        keys=_text(fields[6]),
        store_host=fields[7],
        body_length=int(fields[8]),
        cost=int(fields[9]),
        message_type=MessageType(int(fields[10])),
        offset_message_id=offset_id,
        success=_FLAGS[success],
        client_host=fields[13] if len(fields) > 13 else None,
    )


def _sub_before(fields: list[str]) -> TraceRecord:
    return TraceRecord(
        kind="SubBefore",
        timestamp=int(fields[0]),
        region=fields[1],
        group=fields[2],
        request_id=fields[3],
        message_id=fields[4],
        retry_times=int(fields[5]),
        keys=_text(fields[6]),
    )


def _sub_after(fields: list[str]) -> TraceRecord:
    return TraceRecord(
        kind="SubAfter",
        request_id=fields[0],
        message_id=fields[1],
        cost=int(fields[2]),
        success=_FLAGS[fields[3]],
        keys=_text(fields[4]),
        context_code=ContextCode(int(fields[5])) if len(fields) > 5 else None,
        timestamp=int(fields[6]) if len(fields) > 7 else None,
        group=fields[7] if len(fields) > 7 else None,
    )


def _end_transaction(fields: list[str]) -> TraceRecord:
    return TraceRecord(
        kind="EndTransaction",
        timestamp=int(fields[0]),
        region=fields[1],
        group=fields[2],
        topic=fields[3],
        message_id=fields[4],
        tags=_text(fields[5]),
        keys=_text(fields[6]),
        store_host=fields[7],
        message_type=MessageType(int(fields[8])),
        transaction_id=_text(fields[9]),
        transaction_state=_STATES[fields[10]],
        from_check=_FLAGS[fields[11]],
    )


def _recall(fields: list[str]) -> TraceRecord:
    return TraceRecord(
        kind="Recall",
        timestamp=int(fields[0]),
        region=fields[1],
        group=fields[2],
        topic=fields[3],
        message_id=fields[4],
        success=_FLAGS[fields[5]],
    )


_READERS: Final[dict[str, Callable[[list[str]], TraceRecord]]] = {
    "Pub": _pub,
    "SubBefore": _sub_before,
    "SubAfter": _sub_after,
    "EndTransaction": _end_transaction,
    "Recall": _recall,
}
