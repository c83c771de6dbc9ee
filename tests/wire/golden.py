"""Frames that were captured between Apache's own clients, brokers and name servers, and what is declared for them."""

from __future__ import annotations

import base64
import importlib
import json
import pkgutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header
from rocketpy.wire.frame import Frame, FrameDecoder

FOLDER = Path(__file__).resolve().parent.parent / "golden" / "wire"
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.jsonl"))
SHORT_FORM = {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2}


@dataclass(frozen=True)
class GoldenFrame:
    """One line of a capture."""

    record: dict[str, Any]
    data: bytes
    """The frame with its length word; the first bytes only when it was kept cut."""

    @property
    def is_cut(self) -> bool:
        return "frame_b64" not in self.record

    @property
    def is_answer(self) -> bool:
        return bool(self.record["flag"] & 1)

    @property
    def request_code(self) -> int | None:
        return self.record["request_code"] if self.is_answer else self.record["code"]

    def __str__(self) -> str:
        return f"line {self.record['n']}, {self.record['code_name']} {'answer' if self.is_answer else 'request'}"

    def frame(self) -> Frame:
        decoder = FrameDecoder()
        decoder.receive_data(self.data)
        (frame,) = decoder.frames()
        assert decoder.buffered == 0
        return frame


@cache
def load(file: str) -> list[GoldenFrame]:
    found = []
    for line in (FOLDER / file).read_text("utf-8").splitlines():
        record = json.loads(line)
        found.append(GoldenFrame(record, base64.b64decode(record.get("frame_b64") or record["frame_head_b64"])))
    return found


def whole_frames() -> list[GoldenFrame]:
    """Every frame of every file that was not cut."""
    return [frame for file in FILES for frame in load(file) if not frame.is_cut]


def pairs_of_binary_header(header: bytes) -> list[tuple[bytes, bytes]]:
    """The fields of a binary header one by one, read in the plainest way; Java may write one twice."""
    (remark_length,) = struct.unpack_from(">i", header, 13)
    position = 17 + remark_length + 4
    found = []
    while position < len(header):
        (length,) = struct.unpack_from(">h", header, position)
        key = header[position + 2 : position + 2 + length]
        position += 2 + length
        (length,) = struct.unpack_from(">i", header, position)
        found.append((key, header[position + 4 : position + 4 + length]))
        position += 4 + length
    return found


def has_one_binary_form(header: bytes) -> bool:
    """Whether its fields, written again in their order, give the same bytes: none twice, none empty."""
    pairs = pairs_of_binary_header(header)
    return len({key for key, _ in pairs}) == len(pairs) and all(value for _, value in pairs)


def declaring_modules(kind: str) -> Iterator[ModuleType]:
    """Every module with declarations of "headers" or "bodies", those that are only catalogued included."""
    for package in (f"rocketpy.wire.{kind}", f"rocketpy.wire.catalogue.{kind}"):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            yield importlib.import_module(f"{package}.{module.name}")


@cache
def header_classes() -> dict[tuple[int, bool], type[Header]]:
    """Every declared header by request code and by whether it is of the answer, found by looking into every module."""
    found: dict[tuple[int, bool], type[Header]] = {}
    for module in declaring_modules("headers"):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Header):
                assert all(found.get((int(code), kind.is_answer), kind) is kind for code in kind.codes), kind
                found.update({(int(code), kind.is_answer): kind for code in kind.codes})
    return found
