"""The two header encodings, JSON and ROCKETMQ (binary), in both directions.

JSON headers are read as leniently as fastjson reads them: unknown members are skipped, numbers stand for text and
text for numbers, and what Python's parser refuses gets a second look by `lenient_json`. Plays the part of
RemotingSerializable and RocketMQSerializable.
"""

from __future__ import annotations

import struct
from json.encoder import encode_basestring
from typing import Any

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.wire.codes import LanguageCode, SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import Frame, encode_frame
from rocketpy.wire.json_scalars import Unreadable, int_reader, read_text
from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.limits import DEFAULT_LIMITS, WireLimits

__all__ = ["decode_command", "encode_command"]

_FIXED = struct.Struct(">hBhii")
_INT32 = struct.Struct(">i")
_KEY = struct.Struct(">h")
_LANGUAGES: dict[int, LanguageCode] = {int(code): code for code in LanguageCode}
_LANGUAGE_NAMES: dict[str, LanguageCode] = {code.name: code for code in LanguageCode}
_NAMES_OF_LANGUAGES = tuple(code.name for code in sorted(LanguageCode))
"""By number: the codes count on from 0."""
_JSON, _BINARY = SerializeType.JSON, SerializeType.ROCKETMQ
"""Looked up once: a member of an enumeration takes longer to find than a header to split."""
_quote = encode_basestring
_read_int32 = int_reader(32)
_MEMBERS = {name.lower(): name for name in ("code", "extFields", "flag", "language", "opaque", "remark", "version")}
_LONGEST_MEMBER = 16
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


def encode_command(command: RemotingCommand, *, limits: WireLimits = DEFAULT_LIMITS) -> bytes:
    """The whole frame of a command, in the encoding that the command names.

    Raises:
        LocalProtocolError: a field does not fit the protocol (text that is not valid Unicode, too many bytes).
    """
    try:
        header = _json_header(command) if command.serialize_type == _JSON else _binary_header(command)
    except (UnicodeEncodeError, struct.error) as exc:
        raise LocalProtocolError(f"{command} cannot be written: {exc}") from exc
    return encode_frame(command.serialize_type, header, command.body, limits=limits)


def decode_command(frame: Frame, *, limits: WireLimits = DEFAULT_LIMITS) -> RemotingCommand:
    """The command in a frame.

    Raises:
        RemoteProtocolError: the header is not valid.
    """
    if frame.serialize_type == 0:
        return _from_json(frame, limits)
    return _from_binary(frame, limits)


# --- JSON ----------------------------------------------------------------------------------------------


def _json_header(command: RemotingCommand) -> bytes:
    """Members in the order Java writes them; what is null is left out."""
    fields = ",".join([f"{_quote(key)}:{_quote(value)}" for key, value in command.ext_fields.items()])
    remark = "" if command.remark is None else f'"remark":{_quote(command.remark)},'
    language = LanguageCode.OTHER if command.language is None else command.language
    ext = f'"extFields":{{{fields}}},' if fields else ""
    return (
        f'{{"code":{command.code:d},{ext}"flag":{command.flag:d},"language":"{_NAMES_OF_LANGUAGES[language]}",'
        f'"opaque":{command.opaque:d},{remark}"serializeTypeCurrentRPC":"JSON","version":{command.version:d}}}'
    ).encode()


def _from_json(frame: Frame, limits: WireLimits) -> RemotingCommand:
    header = parse_json(frame.header, max_depth=limits.max_header_depth, max_members=limits.max_ext_fields + 64)
    if not isinstance(header, dict):
        raise RemoteProtocolError("the header is not a JSON object")
    if "code" not in header or "opaque" not in header:
        header = _respelt(header)
    get = header.get
    remark, language = get("remark"), get("language")
    return RemotingCommand(
        _number(get("code"), "code"),
        _ext_fields(get("extFields"), limits),
        frame.body,
        _number(get("opaque"), "opaque"),
        _number(get("flag"), "flag"),
        None if remark is None else read_text(remark),
        _LANGUAGE_NAMES[language] if type(language) is str and language in _LANGUAGE_NAMES else _language(language),
        _number(get("version"), "version"),
        _JSON,
    )


def _respelt(header: dict[str, Any]) -> dict[str, Any]:
    """The members by the names that we know, where a peer spells them in another way; fastjson looks past case."""
    found = dict(header)
    for name, value in header.items():
        known = _MEMBERS.get(name.lower()) if len(name) <= _LONGEST_MEMBER else None
        if known is not None:
            found.setdefault(known, value)
    return found


def _language(value: Any) -> LanguageCode | None:
    """A language by its name in any case or by its number; Java where there is none, None where we do not know it."""
    if value is None:
        return LanguageCode.JAVA
    if isinstance(value, str):
        return _LANGUAGE_NAMES.get(value.upper()) if len(value) <= _LONGEST_MEMBER else None
    return _LANGUAGES.get(value) if type(value) is int else None


def _number(value: Any, name: str) -> int:
    """An int32 member; absent, null and empty are 0, digits in quotes count, as fastjson reads them."""
    if type(value) is int and _INT32_MIN <= value <= _INT32_MAX:
        return value
    try:
        return 0 if value is None else _read_int32(value) or 0
    except Unreadable as exc:
        raise RemoteProtocolError(f"header member {name} is not a 32-bit number") from exc


def _ext_fields(value: object, limits: WireLimits) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RemoteProtocolError("header member extFields is not an object")
    if len(value) > limits.max_ext_fields:
        raise RemoteProtocolError(f"header has {len(value)} fields, the limit is {limits.max_ext_fields}")
    for item in value.values():
        if type(item) is not str:
            return {key: read_text(item) for key, item in value.items() if item is not None}
    return value


# --- ROCKETMQ (binary) ---------------------------------------------------------------------------------


def _binary_header(command: RemotingCommand) -> bytes:
    """Fixed part, remark, fields. The code is cut to 16 bits, as Java cuts it."""
    parts: list[bytes] = []
    for key, value in command.ext_fields.items():
        key_bytes, value_bytes = key.encode(), value.encode()
        parts += (_KEY.pack(len(key_bytes)), key_bytes, _INT32.pack(len(value_bytes)), value_bytes)
    ext = b"".join(parts)
    remark = (command.remark or "").encode()
    code = (command.code & 0xFFFF ^ 0x8000) - 0x8000
    language = LanguageCode.OTHER if command.language is None else command.language
    fixed = _FIXED.pack(code, language, command.version, command.opaque, command.flag)
    return b"".join((fixed, _INT32.pack(len(remark)), remark, _INT32.pack(len(ext)), ext))


def _from_binary(frame: Frame, limits: WireLimits) -> RemotingCommand:
    reader = _Reader(frame.header)
    if len(frame.header) < _FIXED.size:
        raise RemoteProtocolError(f"binary header of {len(frame.header)} bytes is shorter than its fixed part")
    code, language, version, opaque, flag = _FIXED.unpack_from(frame.header)
    reader.position = _FIXED.size
    remark = reader.text(reader.length(_INT32, "remark"), "remark")
    ext_length = reader.length(_INT32, "fields")
    fields = _binary_fields(reader, reader.position + ext_length, limits)
    return RemotingCommand(
        code,
        fields,
        frame.body,
        opaque,
        flag,
        remark or None,
        _LANGUAGES.get(language),
        version,
        _BINARY,
    )


def _binary_fields(reader: _Reader, end: int, limits: WireLimits) -> dict[str, str]:
    fields: dict[str, str] = {}
    reader.end = end
    count = 0
    while reader.position < end:
        count += 1
        if count > limits.max_ext_fields:
            raise RemoteProtocolError(f"header has more than {limits.max_ext_fields} fields")
        key = reader.text(reader.length(_KEY, "field name"), "field name")
        value = reader.text(reader.length(_INT32, "field value"), f"field {key[:64]!r}")
        # No bytes are Java's null here: an empty value (or name) is none.
        if key and value:
            fields[key] = value
    return fields


class _Reader:
    """A cursor that never moves backwards and never past its end, whatever lengths the peer writes."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.end = len(data)
        self.position = 0

    def length(self, layout: struct.Struct, what: str) -> int:
        """Read a length and check it against what is left."""
        start = self.position
        if self.end - start < layout.size:
            raise RemoteProtocolError(f"binary header ends before the length of its {what}")
        length: int = layout.unpack_from(self.data, start)[0]
        self.position = start + layout.size
        if length < 0 or length > self.end - self.position:
            raise RemoteProtocolError(f"binary header: {what} of {length} bytes, {self.end - self.position} are left")
        return length

    def text(self, length: int, what: str) -> str:
        """Read that many bytes of UTF-8."""
        start = self.position
        self.position = start + length
        try:
            return self.data[start : self.position].decode()
        except UnicodeDecodeError as exc:
            raise RemoteProtocolError(f"binary header: {what} is not UTF-8") from exc
