"""How a reader finds the serializer of a body by its content type, and what it says when there is none."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import attrs
import pytest

from rocketpy.errors import ConfigError, SerializationError, UnknownContentTypeError
from rocketpy.serialization import JsonSerializer, Serializer, serializer
from rocketpy.serialization.content_types import content_type_of, decoded, encoded, own_serializers
from tests.serialization.shouting import Shouting


@pytest.mark.parametrize(
    ("content_type", "body", "value"),
    [
        ("application/json", b'{"a":1}', {"a": 1}),
        ("Application/JSON; charset=UTF-8", b'{"a":1}', {"a": 1}),
        ("application/msgpack", b"\x81\xa1a\x01", {"a": 1}),
        ("application/x-msgpack", b"\xc0", None),
        ("text/plain;charset=utf-8", "ü".encode(), "ü"),
        ('text/plain; Charset="UTF-8"', b"a", "a"),
        ("text/plain", b"a", "a"),
        ("application/octet-stream", b"\x00", b"\x00"),
    ],
)
def test_what_is_built_in_is_found_however_it_is_written(content_type: str, body: bytes, value: object) -> None:
    assert decoded(body, content_type, (), "it") == value


@pytest.mark.parametrize("name", ["binary", "string", "json", "msgpack"])
def test_every_format_is_read_by_the_content_type_that_it_writes(name: str) -> None:
    value: Any = b"x" if name == "binary" else "x"
    by = serializer(name)
    assert decoded(encoded(value, by), content_type_of(by), (), "it") == value


@pytest.mark.parametrize("content_type", ["application/x-python-pickle", "text/plain;charset=gbk", ";", "a\nb" * 500])
def test_threat_M1_an_unknown_content_type_is_an_error_that_says_what_to_do(content_type: str) -> None:
    with pytest.raises(UnknownContentTypeError, match=r"serializer.*call decode.*or read the body") as caught:
        decoded(b"\x80\x04K\x01.", content_type, (), "it")
    assert caught.value.content_type == content_type
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"{"),
        ("application/json", b"[" * 65 + b"]" * 65),
        ("application/msgpack", b"\x91" * 65 + b"\xc0"),
        ("application/msgpack", b"\xdd\xff\xff\xff\xff"),
        ("application/msgpack", b"\x81\xa1a"),
        ("text/plain", b"\xff"),
    ],
)
def test_threat_M1_a_body_that_is_not_what_it_says_is_an_error(content_type: str, body: bytes) -> None:
    with pytest.raises(SerializationError, match=f"the body of 'it' does not match its content type '{content_type}'"):
        decoded(body, content_type, (), "it")


def test_a_serializer_of_the_users_own_comes_first_and_by_the_whole_text() -> None:
    loud, louder = Shouting("text/plain;to=all"), Shouting("text/plain;to=one")
    own = own_serializers([loud, louder])
    assert decoded(b"A", "text/plain;to=one", own, "it") == ("a", louder)
    assert decoded(b"A", "TEXT/plain", own, "it") == ("a", loud)
    shallow = own_serializers(JsonSerializer(max_depth=1))
    with pytest.raises(SerializationError, match="deeper than 1"):
        decoded(b"[[1]]", "application/json", shallow, "it")


def test_what_a_serializer_of_the_users_own_raises_is_the_cause() -> None:
    own = own_serializers(Shouting("text/loud"))
    with pytest.raises(SerializationError, match="the serializer 'shouting' failed: UnicodeDecodeError") as caught:
        decoded(b"\xff", "text/loud", own, "it")
    assert isinstance(caught.value.__cause__, UnicodeDecodeError)
    with pytest.raises(SerializationError, match="failed to write the value: AttributeError") as caught:
        encoded(5, own[0])
    assert isinstance(caught.value.__cause__, AttributeError)
    for answer, found in (("", "returned no bytes"), (None, "an object of type NoneType: a body is bytes")):
        with pytest.raises(SerializationError, match=found):
            encoded(answer, Shouting("text/loud", encode=lambda value: value if value is None else b""))


@pytest.mark.parametrize("content_type", [None, "", " ", "a\x01b", "x" * 201, 5])
def test_a_serializer_without_a_usable_content_type_is_refused(content_type: Any) -> None:
    with pytest.raises(ConfigError, match="'shouting' needs a content_type"):
        own_serializers([Shouting(content_type)])


@pytest.mark.parametrize("wrong", [5, None, "yaml", Shouting, JsonSerializer, [object()]])
def test_what_is_no_serializer_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="value format"):
        own_serializers(wrong)


@dataclasses.dataclass
class Line:
    article: str
    count: int


@attrs.frozen
class Order:
    number: uuid.UUID
    lines: tuple[Line, ...]


@pytest.mark.parametrize("form", [serializer("json"), serializer("msgpack")], ids=lambda form: form.name)
def test_objects_of_attrs_and_dataclasses_are_written_as_their_fields(form: Serializer) -> None:
    order = Order(uuid.UUID(int=7), (Line("cup", 2),))
    read = {"number": "00000000-0000-0000-0000-000000000007", "lines": [{"article": "cup", "count": 2}]}
    assert form.decode(form.encode(order)) == read
    with pytest.raises(SerializationError, match=r"the value at 'lines\[0\].article' has the type object"):
        form.encode(Order(uuid.UUID(int=7), (Line(object(), 1),)))  # type: ignore[arg-type]
    with pytest.raises(SerializationError, match="the value has the type type"):
        form.encode(Line)
