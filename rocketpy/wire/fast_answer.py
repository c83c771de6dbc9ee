"""Reads from a frame the little that the hot path needs, in one pass over its header and without building a command.

`peek` tells whose frame it is; `scan_send_answer` reads a send answer that is plain success; `sent_answer` does both at
once; `scan_pull_answer` reads the answer to a pull that found messages. They know the shapes that Java and we write and
leave every other one to the full parser, whose word they repeat. Only of a JSON header that gives a member twice may
`peek` take another one than it does: no peer writes such a header.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from rocketpy.wire.codes import CURRENT_VERSION
from rocketpy.wire.serialize import decode_command

if TYPE_CHECKING:
    from rocketpy.wire.frame import Frame

__all__ = ["PullAnswer", "SendAnswer", "peek", "scan_pull_answer", "scan_send_answer", "sent_answer"]

SendAnswer = tuple[str, int, int, str | None, str | None, bool | None]
"""msgId, queueId, queueOffset, transactionId, MSG_REGION, TRACE_ON."""

PullAnswer = tuple[int, int, int, int]
"""suggestWhichBrokerId, nextBeginOffset, minOffset, maxOffset."""

# --- whose frame is it -----------------------------------------------------------------------------------

# The last members of a header as Java and we write them: flag, language, opaque, remark, encoding, version. Quotes
# within text are escaped, so these names with their quotes are never part of a text; and as no brace stands between
# them and the last one, they are members of the header itself and not of something within it.
_FLAGS_OF_JAVA = {b'"flag":%d,"language":"JAVA",' % flag: flag for flag in range(4)}
_FLAGS_OF_PYTHON = {b'"flag":%d,"language":"PYTHON",' % flag: flag for flag in range(4)}
_TAILS = frozenset(
    b'"serializeTypeCurrentRPC":"JSON","version":%d}' % version for version in range(CURRENT_VERSION + 100)
)
_FOUND = b'"remark":"FOUND",'
"""The remark of a pull that found messages, the one success that is not silent."""

_BINARY_HEAD = struct.Struct(">h3xii")
_BINARY_LEAD = struct.Struct(">h7xiii")
_LEAD_SIZE = 21


def peek(frame: Frame) -> tuple[int, int, int]:
    """Opaque, flag and code of a frame.

    Raises:
        RemoteProtocolError: the header is not valid. (One that is valid as far as this looks may pass.)
    """
    kind, header, _ = frame
    if kind == 0:
        at = header.rfind(b'"opaque":')
        comma = header.find(b",", at)
        digits = header[at + 9 : comma]
        if header.startswith(b'{"code":0,') and digits.isdigit() and len(digits) < 10:
            flag = _FLAGS_OF_JAVA.get(header[at - 27 : at])
            if flag is None:
                flag = _FLAGS_OF_PYTHON.get(header[at - 29 : at])
            tail = header[comma + 1 :]
            if flag is not None and (tail in _TAILS or tail.removeprefix(_FOUND) in _TAILS):
                return int(digits), flag, 0
    elif len(header) >= _LEAD_SIZE:
        code, opaque, flag = _BINARY_HEAD.unpack_from(header)
        return opaque, flag, code
    command = decode_command(frame)
    return command.opaque, command.flag, command.code


# --- send answers ----------------------------------------------------------------------------------------

# As Java 5.x, Java 4.x and we write them. Java's order is that of a hash table, always the same for these names. What
# holds a quote, a backslash, a brace or more than ASCII does not match and is left to the full parser.
_TEXT = rb'"([^"\\{}\x80-\xff]*+)"'
_INT = rb'"([0-9]{1,9})"'
_LONG = rb'"([0-9]{1,18})"'
_TRACE = rb'"(true|false)"'
_TAIL = (
    rb'\},"flag":1,"language":"[A-Z_]{1,16}","opaque":([0-9]{1,9}),%b'
    rb'"serializeTypeCurrentRPC":"JSON","version":[0-9]{1,9}\}'
)


def _json(fields: bytes, *values: bytes, remark: bytes = b"") -> re.Pattern[bytes]:
    return re.compile(rb'\{"code":0,"extFields":\{' + fields % values + _TAIL % remark)


_JAVA_5 = _json(
    b'"queueId":%b,(?:"transactionId":%b,)?+"msgId":%b,"TRACE_ON":%b,"MSG_REGION":%b,"queueOffset":%b',
    *(_INT, _TEXT, _TEXT, _TRACE, _TEXT, _LONG),
)
_JAVA_4 = _json(
    b'"queueId":%b,"TRACE_ON":%b,"MSG_REGION":%b,"msgId":%b,"queueOffset":%b', _INT, _TRACE, _TEXT, _TEXT, _LONG
)
_OURS = _json(
    b'"msgId":%b,"queueId":%b,"queueOffset":%b(?:,"transactionId":%b)?+(?:,"TRACE_ON":%b)?+(?:,"MSG_REGION":%b)?+',
    *(_TEXT, _INT, _LONG, _TEXT, _TRACE, _TEXT),
)


def _binary(name: bytes, value: bytes) -> bytes:
    """One field: its name with length, the length of the value (less than 128) as one group, the value as another."""
    return rb"\x00" + re.escape(b"%c%b" % (len(name), name)) + rb"\x00\x00\x00([\x01-\x7f])(" + value + rb")"


# Without zero bytes in values there is only one way to cut them; that each is as long as it says is checked after.
_BINARY = re.compile(
    _binary(b"msgId", rb"[^\x00\x80-\xff]++")
    + _binary(b"queueId", rb"[0-9]{1,9}")
    + _binary(b"queueOffset", rb"[0-9]{1,18}")
    + (rb"(?:%b)?+" % _binary(b"transactionId", rb"[^\x00\x80-\xff]++"))
    + (rb"(?:%b)?+" % _binary(b"TRACE_ON", rb"true|false"))
    + (rb"(?:%b)?+" % _binary(b"MSG_REGION", rb"[^\x00\x80-\xff]++"))
)


def scan_send_answer(frame: Frame) -> SendAnswer | None:
    """What a plain successful answer to a send says.

    Returns:
        The fields as SendMessageResponseHeader reads them, or None: look at the frame with the full parser.
    """
    kind, header, _ = frame
    if kind != 0:
        return _scan_binary(header)
    found = sent_answer(frame)
    return None if found is None else found[1]


def sent_answer(frame: Frame) -> tuple[int, SendAnswer] | None:
    """Opaque and fields of a plain successful answer to a send with a JSON header; None for every other frame."""
    kind, header, _ = frame
    if kind != 0:
        return None
    if match := _JAVA_5.fullmatch(header):
        queue_id, transaction_id, message_id, trace, region, offset, opaque = match.groups()
    elif match := _OURS.fullmatch(header):
        message_id, queue_id, offset, transaction_id, trace, region, opaque = match.groups()
    elif match := _JAVA_4.fullmatch(header):
        queue_id, trace, region, message_id, offset, opaque = match.groups()
        transaction_id = None
    else:
        return None
    # Written out, for this is done for every message that is sent.
    return int(opaque), (
        message_id.decode(),
        int(queue_id),
        int(offset),
        None if transaction_id is None else transaction_id.decode(),
        None if region is None else region.decode(),
        None if trace is None else trace == b"true",
    )


def _send_answer(
    message_id: bytes,
    queue_id: bytes,
    offset: bytes,
    transaction_id: bytes | None,
    region: bytes | None,
    trace: bytes | None,
) -> SendAnswer:
    return (
        message_id.decode(),
        int(queue_id),
        int(offset),
        None if transaction_id is None else transaction_id.decode(),
        None if region is None else region.decode(),
        None if trace is None else trace == b"true",
    )


def _scan_binary(header: bytes) -> SendAnswer | None:
    if len(header) < _LEAD_SIZE:
        return None
    code, flag, remark, fields = _BINARY_LEAD.unpack_from(header)
    match = _BINARY.fullmatch(header, _LEAD_SIZE)
    if match is None or code or flag != 1 or remark or fields != len(header) - _LEAD_SIZE:
        return None
    a, message_id, b, queue_id, c, offset, d, transaction_id, e, trace, f, region = match.groups()
    for size, value in ((a, message_id), (b, queue_id), (c, offset), (d, transaction_id), (e, trace), (f, region)):
        if size is not None and size[0] != len(value):
            return None
    return _send_answer(message_id, queue_id, offset, transaction_id, region, trace)


# --- pull answers ----------------------------------------------------------------------------------------

_SMALL = rb'"[0-9]{1,9}"'
_JAVA_PULL = _json(
    b'"suggestWhichBrokerId":%b,(?:"groupSysFlag":%b,)?+"nextBeginOffset":%b,"maxOffset":%b,"minOffset":%b'
    b'(?:,"topicSysFlag":%b)?+',
    *(_LONG, _SMALL, _LONG, _LONG, _LONG, _SMALL),
    remark=_FOUND,
)
_OUR_PULL = _json(
    b'"suggestWhichBrokerId":%b,"nextBeginOffset":%b,"minOffset":%b,"maxOffset":%b'
    b'(?:,"topicSysFlag":%b,"groupSysFlag":%b)?+',
    *(_LONG, _LONG, _LONG, _LONG, _SMALL, _SMALL),
    remark=_FOUND,
)


def scan_pull_answer(frame: Frame) -> PullAnswer | None:
    """What the answer to a pull that found messages says in its header; None: look with the full parser."""
    kind, header, _ = frame
    if kind != 0:
        return None
    if match := _JAVA_PULL.fullmatch(header):
        suggested, following, highest, lowest, _ = match.groups()
    elif match := _OUR_PULL.fullmatch(header):
        suggested, following, lowest, highest, _ = match.groups()
    else:
        return None
    return int(suggested), int(following), int(lowest), int(highest)
