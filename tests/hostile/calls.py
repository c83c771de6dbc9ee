"""Calls into C that go over a body at its limit: what a turn cannot be divided by, with the processor time of each."""

from __future__ import annotations

import json
import re
import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from rocketpy.wire.limits import DEFAULT_LIMITS
from tests.hostile.frames import MAX_MEMBERS

LIMIT = DEFAULT_LIMITS.max_json_body


class Call(NamedTuple):
    """One of them."""

    what: str
    over: str
    prepare: Callable[[], Any]
    run: Callable[[Any], object]


def _text(piece: str, size: int = LIMIT) -> str:
    return piece * (size // len(piece))


CALLS: dict[str, Call] = {
    "json scan": Call(
        "the scanner of `json`",
        "16 MiB of text in one string",
        lambda: f'{{"a":"{_text("x", LIMIT - 100)}"}}',
        json.loads,
    ),
    "json members": Call(
        "the scanner of `json`",
        f"{MAX_MEMBERS:,} numbers",
        lambda: "[" + "1," * (MAX_MEMBERS - 1) + "1]",
        json.loads,
    ),
    "json dump": Call(
        "the encoder of `json`",
        f"{MAX_MEMBERS:,} names",
        lambda: {f"n{number}": "x" for number in range(MAX_MEMBERS)},
        json.dumps,
    ),
    "decode": Call("`bytes.decode`", "16 MiB of UTF-8", lambda: _text("\u00e9", LIMIT // 2).encode(), bytes.decode),
    "re": Call("a match of `re`", "16 MiB of white space", lambda: _text(" "), re.compile(r"\s*+").match),
    "crc32": Call("`zlib.crc32`", "16 MiB", lambda: bytes(LIMIT), zlib.crc32),
    "copy": Call("a copy of a body", "16 MiB", lambda: bytearray(LIMIT), bytes),
}


def seconds(call: Call, tries: int = 5) -> float:
    """Processor time of the call, the best of some."""
    argument = call.prepare()
    best = float("inf")
    for _ in range(tries):
        began = time.thread_time()
        call.run(argument)
        best = min(best, time.thread_time() - began)
    return best
