"""Headers of ends of transactions that look like one that came before over the same connection.

What a producer says of its transactions differs from one to the next in five places: the two offsets, the two ids and
the opaque. The rest of a JSON header says what it said the last time, as with sends (`send_layout`).
"""

from __future__ import annotations

import re
from typing import Final

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import Frame
from rocketpy.wire.headers.transaction import EndTransactionRequestHeader
from rocketpy.wire.limits import DEFAULT_LIMITS, WireLimits
from rocketpy.wire.serialize import decode_command

__all__ = ["LONGEST_HEADER", "EndLayout", "LaidOutEnd"]

LONGEST_HEADER: Final = 2048
"""Bytes. An expression that reads a longer one would take long to compile, and much memory."""
_NUMBER: Final = rb"0|[1-9][0-9]{0,17}"
_ID: Final = rb"[ !#-\[\]-~]*"
"""What stands for itself in a JSON text."""
_HOLES: Final = {
    name: re.compile(before + rb"(?P<%b>%b)" % (name.encode(), value) + behind)
    for name, before, value, behind in (
        ("offset", rb'"tranStateTableOffset"\s*:\s*"', _NUMBER, b'"'),
        ("position", rb'"commitLogOffset"\s*:\s*"', _NUMBER, b'"'),
        ("message", rb'"msgId"\s*:\s*"', _ID, b'"'),
        ("transaction", rb'"transactionId"\s*:\s*"', _ID, b'"'),
        ("opaque", rb'"opaque"\s*:\s*', rb"0|[1-9][0-9]{0,8}", rb"(?=[,}\s])"),
    )
}
_GROUPS: Final = {name: b"(?P<%b>%b)" % (name.encode(), _ID if name[0] in "mt" else _NUMBER) for name in _HOLES}
_GROUPS["opaque"] = rb"(?P<opaque>0|[1-9][0-9]{0,8})"
_PROBE: Final = {"offset": b"7", "position": b"1234567890123", "message": b"M", "transaction": b"I", "opaque": b"77"}
_PROBE_FIELDS: Final = {
    "tranStateTableOffset": "7",
    "commitLogOffset": "1234567890123",
    "msgId": "M",
    "transactionId": "I",
}


class LaidOutEnd(RemotingCommand):
    """An END_TRANSACTION that was read by a layout; it has everything that a RemotingCommand has.

    Attributes:
        layout: What is the same for all that look like it.
        offset: The offset of the half message in its queue.
        position: The position of the half message in the log.
    """

    __slots__ = ("_fields", "_ids", "layout", "offset", "position")

    def __init__(
        self, layout: EndLayout, body: bytes, opaque: int, offset: int, position: int, ids: tuple[bytes, bytes]
    ) -> None:
        model = layout.model
        self.code = model.code
        self.body = body
        self.opaque = opaque
        self.flag = model.flag
        self.remark = model.remark
        self.language = model.language
        self.version = model.version
        self.serialize_type = model.serialize_type
        self.layout = layout
        self.offset = offset
        self.position = position
        self._ids = ids
        self._fields: dict[str, str] | None = None

    @property
    def ext_fields(self) -> dict[str, str]:
        """The custom header as it travels, made when it is first asked for: a hook may change it, and that holds."""
        if self._fields is None:
            message, transaction = self._ids
            self._fields = {
                **self.layout.model.ext_fields,
                "tranStateTableOffset": str(self.offset),
                "commitLogOffset": str(self.position),
                "msgId": message.decode(),
                "transactionId": transaction.decode(),
            }
        return self._fields

    @ext_fields.setter
    def ext_fields(self, fields: dict[str, str]) -> None:
        self._fields = fields


class EndLayout:
    """One header, with holes.

    Attributes:
        model: The command that it was made of.
        header: Its custom header; what stands in the holes is that of the first end.
        was_used: Whether another end looked like it.
    """

    __slots__ = ("_head", "_match", "header", "model", "was_used")

    def __init__(self, model: RemotingCommand, header: EndTransactionRequestHeader, parts: list[bytes]) -> None:
        self.model = model
        self.header = header
        self.was_used = False
        self._head = parts[0]
        groups = [part if number % 2 else re.escape(part) for number, part in enumerate(parts)]
        self._match = re.compile(b"".join(groups)).fullmatch

    @classmethod
    def of(cls, frame: Frame, command: RemotingCommand, limits: WireLimits = DEFAULT_LIMITS) -> EndLayout | None:
        """The layout of a header; None when it is too unusual to have one."""
        text = frame.header
        if len(text) > LONGEST_HEADER:
            return None
        found = [(name, list(hole.finditer(text))) for name, hole in _HOLES.items()]
        if any(len(matches) != 1 for _, matches in found) or not text.isascii():
            return None
        parts: list[bytes] = []
        probe: list[bytes] = []
        at = 0
        for (begin, end), name in sorted((matches[0].span(name), name) for name, matches in found):
            parts += (text[at:begin], _GROUPS[name])
            probe += (text[at:begin], _PROBE[name])
            at = end
        if not _holds(b"".join((*probe, text[at:])), frame, command, limits):
            return None
        try:
            header = EndTransactionRequestHeader.from_ext(command.ext_fields)
        except RemoteProtocolError:
            return None
        return cls(_without_body(command), header, [*parts, text[at:]])

    def read(self, header: bytes, body: bytes) -> LaidOutEnd | None:
        """The command in a frame whose header looks like this one; None when it does not."""
        found = self._match(header) if header.startswith(self._head) else None
        if found is None:
            return None
        self.was_used = True
        offset, position, message, transaction, opaque = found.group(*_HOLES)
        return LaidOutEnd(self, body, int(opaque), int(offset), int(position), (message, transaction))


def _without_body(command: RemotingCommand) -> RemotingCommand:
    return RemotingCommand(
        command.code,
        dict(command.ext_fields),
        flag=command.flag,
        remark=command.remark,
        language=command.language,
        version=command.version,
        serialize_type=command.serialize_type,
    )


def _holds(text: bytes, frame: Frame, command: RemotingCommand, limits: WireLimits) -> bool:
    """Whether the full parser finds in the holes what is put there, and all else unchanged."""
    try:
        probe = decode_command(Frame(frame.serialize_type, text, frame.body), limits=limits)
    except RemoteProtocolError:
        return False
    expected = _without_body(command)
    expected.ext_fields |= _PROBE_FIELDS
    expected.body, expected.opaque = command.body, 77
    return command.code == RequestCode.END_TRANSACTION and probe == expected
