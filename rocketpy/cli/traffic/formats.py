"""The formats in which messages are printed: pretty, value, json and raw. Each turns a message into bytes. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from rocketpy.cli.text import escaped, time_text
from rocketpy.cli.traffic.bodies import body_of, clean_lines, line_of_body, marked, pretty_value, text_of
from rocketpy.cli.traffic.records import line_of
from rocketpy.message import MessageExt

__all__ = ["FORMATS", "Format", "format_of"]

Format: TypeAlias = Callable[[MessageExt], bytes]
FORMATS: Final = ("pretty", "value", "json", "raw")


def format_of(name: str, *, terminal: bool) -> Format:
    """The function that prints a message.

    Args:
        name: one of `FORMATS`.
        terminal: whether the output is a terminal, to which no control characters go.
    """
    if name == "pretty":
        return _pretty if terminal else _line
    if name == "json":
        return _json
    if name == "value":
        return _clean_value if terminal else _value
    return _clean_raw if terminal else _raw


def _json(message: MessageExt) -> bytes:
    return (line_of(message) + "\n").encode()


def _head(message: MessageExt) -> list[str]:
    """Where and when the message was stored, its tag and its keys."""
    parts = [
        time_text(message.store_timestamp),
        f"{escaped(message.broker_name)}:{message.queue_id}+{message.queue_offset}",
    ]
    if message.tags:
        parts.append(f"tags={escaped(message.tags)}")
    if message.keys:
        parts.append(f"keys={escaped(','.join(message.keys))}")
    return parts


def _line(message: MessageExt) -> bytes:
    """All in one line, whatever the body is."""
    body = body_of(message)
    text = line_of_body(body) if isinstance(body, bytes) else f"({escaped(str(body))})"
    return ("  ".join([*_head(message), text]) + "\n").encode()


def _pretty(message: MessageExt) -> bytes:
    """The body after the rest if it has one line, otherwise below it; JSON has one member per line."""
    body = body_of(message)
    lines = pretty_value(body) if isinstance(body, bytes) else [f"({escaped(str(body))})"]
    head = "  ".join(_head(message))
    if len(lines) == 1:
        return f"{head}  {lines[0]}\n".encode()
    return (head + "".join(f"\n    {line}" for line in lines) + "\n").encode()


def _value(message: MessageExt) -> bytes:
    """The body in a line of its own, in base64 if it is not text."""
    body = body_of(message)
    if not isinstance(body, bytes):
        return f"({escaped(str(body))})\n".encode()
    return body + b"\n" if text_of(body) is not None else (marked(body) + "\n").encode()


def _clean_value(message: MessageExt) -> bytes:
    return clean_lines(_value(message).decode()).encode()


def _raw(message: MessageExt) -> bytes:
    """The bytes of the body, and nothing else. One that cannot be unpacked raises MessageDecodeError."""
    return message.body


def _clean_raw(message: MessageExt) -> bytes:
    return clean_lines(message.body.decode("utf-8", "backslashreplace")).encode()
