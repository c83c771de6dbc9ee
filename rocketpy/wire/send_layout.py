"""Reads headers of sends and of ends of transactions that look like one before over the same connection.

What a producer sends to a topic differs from message to message in four places: the queue, the time of birth, the
properties and the opaque. So the rest of a JSON header, byte by byte, says what it said the last time, and need not be
taken apart again. `SendReader` remembers a few headers; what looks like none of them, or is in any way unusual, it
leaves to the full parser, which says the same of all others. Plays the part of the fast encoding of
SendMessageRequestHeaderV2, for the encoding that all clients use.
"""

from __future__ import annotations

import re
from typing import Final

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.end_layout import EndLayout
from rocketpy.wire.frame import Frame
from rocketpy.wire.headers.send import SendMessageRequestHeader
from rocketpy.wire.limits import DEFAULT_LIMITS, WireLimits
from rocketpy.wire.serialize import decode_command

__all__ = ["LONGEST_HEADER", "LaidOutSend", "SendLayout", "SendReader"]

MOST_LAYOUTS: Final = 4
"""Headers that are remembered of one connection."""
LONGEST_HEADER: Final = 65_536
"""Bytes. Longer headers, of which clients send none, are left to the parser, so that little is remembered."""
_PATIENCE: Final = 256
"""Requests that look like none of them, after which another header is taken up at the latest."""
_CODE: Final = int(RequestCode.SEND_MESSAGE_V2)
_CODES: Final = (_CODE, int(RequestCode.END_TRANSACTION))
_HOLES: Final = {
    "e": re.compile(rb'"e"\s*:\s*"([0-9]{1,9})"'),
    "g": re.compile(rb'"g"\s*:\s*"([0-9]{1,18})"'),
    "i": re.compile(rb'"i"\s*:\s*"([^"]*)"'),
    "": re.compile(rb'"opaque"\s*:\s*(0|[1-9][0-9]{0,8})(?=[,}\s])'),
}
"""Where queue, time of birth, properties and opaque stand."""
_ORDINARY: Final = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))
"""What stands for itself in a JSON text."""
_ZERO: Final = ord("0")
_PROBE: Final = {"e": b"7", "g": b"1234567890123", "i": rb"k\u0001v\u0002", "": b"77"}


class LaidOutSend(RemotingCommand):
    """A SEND_MESSAGE_V2 that was read by a layout; it has everything that a RemotingCommand has.

    Attributes:
        layout: What is the same for all that look like it.
        queue_id: The queue.
        born_timestamp: When the message was made, ms.
        properties: Its property text: ASCII, without quotes, backslashes and control characters but the separators.
    """

    __slots__ = ("_fields", "born_timestamp", "layout", "properties", "queue_id")

    def __init__(
        self, layout: SendLayout, body: bytes, opaque: int, queue_id: int, born_timestamp: int, properties: bytes
    ) -> None:
        model = layout.model
        self.code = _CODE
        self.body = body
        self.opaque = opaque
        self.flag = model.flag
        self.remark = model.remark
        self.language = model.language
        self.version = model.version
        self.serialize_type = model.serialize_type
        self.layout = layout
        self.queue_id = queue_id
        self.born_timestamp = born_timestamp
        self.properties = properties
        self._fields: dict[str, str] | None = None

    @property
    def ext_fields(self) -> dict[str, str]:
        """The custom header as it travels, made when it is first asked for: a hook may change it, and that holds."""
        if self._fields is None:
            own = {"e": str(self.queue_id), "g": str(self.born_timestamp), "i": self.properties.decode()}
            self._fields = {**self.layout.model.ext_fields, **own}
        return self._fields

    @ext_fields.setter
    def ext_fields(self, fields: dict[str, str]) -> None:
        self._fields = fields


class SendLayout:
    """One header, with holes.

    Attributes:
        model: The command that it was made of.
        header: Its custom header; what stands in the holes is that of the first message.
        was_used: Whether another message looked like it.
    """

    __slots__ = ("_head", "_literals", "_order", "_tail", "header", "model", "was_used")

    def __init__(
        self, model: RemotingCommand, header: SendMessageRequestHeader, parts: list[bytes], order: list[int]
    ) -> None:
        self.model = model
        self.header = header
        self.was_used = False
        self._head, *self._literals, self._tail = parts
        self._order = order

    @classmethod
    def of(cls, frame: Frame, command: RemotingCommand, limits: WireLimits = DEFAULT_LIMITS) -> SendLayout | None:
        """The layout of a header; None when it is too unusual to have one."""
        text = frame.header
        found = [(name, list(hole.finditer(text))) for name, hole in _HOLES.items()]
        if any(len(matches) != 1 for _, matches in found) or not text.isascii():
            return None
        spans = sorted((matches[0].span(1), name) for name, matches in found)
        parts, at = [], 0
        for (begin, end), _ in spans:
            parts.append(text[at:begin])
            at = end
        parts.append(text[at:])
        if not _holds(parts, [name for _, name in spans], frame, command, limits):
            return None
        names = list(_HOLES)
        try:
            header = SendMessageRequestHeader.from_short_ext(command.ext_fields)
        except RemoteProtocolError:
            return None
        model = RemotingCommand(
            command.code,
            dict(command.ext_fields),
            flag=command.flag,
            remark=command.remark,
            language=command.language,
            version=command.version,
            serialize_type=command.serialize_type,
        )
        return cls(model, header, parts, [[name for _, name in spans].index(name) for name in names])

    def read(self, header: bytes, body: bytes) -> LaidOutSend | None:
        """The command in a frame whose header looks like this one; None when it does not."""
        head, tail = self._head, self._tail
        if not header.startswith(head) or not header.endswith(tail):
            return None
        first, second, third = self._literals
        find = header.find
        a = len(head)
        b = find(first, a)
        c = b + len(first)
        d = find(second, c)
        e = d + len(second)
        f = find(third, e)
        g = f + len(third)
        h = len(header) - len(tail)
        if b < 0 or d < 0 or f < 0 or g > h:
            return None
        values = (header[a:b], header[c:d], header[e:f], header[g:h])
        at_queue, at_born, at_text, at_opaque = self._order
        queue, born, raw, opaque = values[at_queue], values[at_born], values[at_text], values[at_opaque]
        # As the parser's: digits alone, no more than fit the type, and no zero before them.
        if not (
            queue.isdigit()
            and len(queue) < 10
            and (queue[0] != _ZERO or len(queue) == 1)
            and born.isdigit()
            and len(born) < 19
            and (born[0] != _ZERO or len(born) == 1)
            and opaque.isdigit()
            and len(opaque) < 10
            and (opaque[0] != _ZERO or len(opaque) == 1)
        ):
            return None
        text = raw.replace(b"\\u0001", b"\x01").replace(b"\\u0002", b"\x02")
        # All that is left of it without what stands for itself are the backslashes of the separators.
        rest = raw.translate(None, _ORDINARY)
        if 5 * len(rest) != len(raw) - len(text) or rest.strip(b"\\"):
            return None
        self.was_used = True
        return LaidOutSend(self, body, int(opaque), int(queue), int(born), text)


def _holds(parts: list[bytes], names: list[str], frame: Frame, command: RemotingCommand, limits: WireLimits) -> bool:
    """Whether the full parser finds in the holes what is put there, and all else unchanged."""
    values = [_PROBE[name] for name in names]
    text = b"".join(part for pair in zip(parts, [*values, b""], strict=True) for part in pair)
    try:
        probe = decode_command(Frame(frame.serialize_type, text, frame.body), limits=limits)
    except RemoteProtocolError:
        return False
    own = {"e": "7", "g": "1234567890123", "i": "k\x01v\x02"}
    return probe == RemotingCommand(
        command.code,
        {**command.ext_fields, **own},
        command.body,
        77,
        command.flag,
        command.remark,
        command.language,
        command.version,
        command.serialize_type,
    )


class SendReader:
    """Reads the frames of one connection.

    Args:
        limits: bounds inside a frame.
    """

    __slots__ = ("_layouts", "_left", "_limits", "_patience")

    def __init__(self, limits: WireLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._layouts: list[SendLayout | EndLayout] = []
        self._patience = self._left = 1

    def read(self, frame: Frame) -> RemotingCommand:
        """The command in a frame.

        Raises:
            RemoteProtocolError: the header is not valid.
        """
        if frame[0] == 0:
            for layout in self._layouts:
                found = layout.read(frame[1], frame[2])
                if found is not None:
                    return found
        command = decode_command(frame, limits=self._limits)
        if command.code in _CODES and frame[0] == 0 and len(frame[1]) <= LONGEST_HEADER:
            self._left -= 1
            if self._left <= 0:
                self._take_up(frame, command)
        return command

    def _take_up(self, frame: Frame, command: RemotingCommand) -> None:
        """Remember a header. The less that helped so far, the more rarely it is tried: it costs two parses."""
        helped = not self._layouts or any(layout.was_used for layout in self._layouts)
        self._patience = 1 if helped else min(2 * self._patience, _PATIENCE)
        self._left = self._patience
        kind = SendLayout if command.code == _CODE else EndLayout
        layout = kind.of(frame, command, self._limits)
        for each in self._layouts:
            each.was_used = False
        if layout is not None:
            self._layouts = [layout, *self._layouts][:MOST_LAYOUTS]
