from __future__ import annotations

import pickle

import pytest

from rocketpy.errors import ConfigError
from rocketpy.serialization import JsonSerializer, Serializer, serializer


class Hexadecimal:
    name = "hex"

    def encode(self, value: object) -> bytes:
        return f"{value:x}".encode()

    def decode(self, body: bytes) -> int:
        return int(body, 16)


@pytest.mark.parametrize("name", ["binary", "string", "json", "msgpack"])
def test_named_formats(name: str) -> None:
    named = serializer(name)
    assert named.name == name
    assert serializer(named) is named
    assert isinstance(named, Serializer)
    assert pickle.loads(pickle.dumps(named)) == named


def test_a_format_of_ones_own() -> None:
    own = Hexadecimal()
    assert serializer(own) is own
    assert own.decode(own.encode(255)) == 255


def test_bounds_are_settings() -> None:
    assert serializer(JsonSerializer(max_depth=2)).encode([[1]]) == b"[[1]]"


def test_unknown_formats_are_told_what_there_is() -> None:
    with pytest.raises(ConfigError, match="no value format 'xml'; the formats are binary, string, json, msgpack"):
        serializer("xml")
    with pytest.raises(ConfigError, match=r"one of binary, string, json, msgpack, or an object.*int is neither"):
        serializer(3)  # type: ignore[arg-type]  # what is tested
