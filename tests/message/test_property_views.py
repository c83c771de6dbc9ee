"""`properties` and `system_properties` of messages: two views of one dict."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import ConfigError
from rocketpy.message import RESERVED_PROPERTIES, Message, MessageExt
from rocketpy.wire.message_codec import decode_record
from rocketpy.wire.properties import encode_properties
from rocketpy.wire.record import encode_record
from rocketpy.wire.stored_message import StoredMessage
from tests.strategies import property_maps, user_properties

OWN = {"shop": "north", "größe": "3 µm"}
SYSTEM = {"WAIT": "true", "TAGS": "t", "KEYS": "k", "__SHARDINGKEY": "s"}


def message(**properties: str) -> Message:
    return Message("T", b"x", tags="t", keys="k", sharding_key="s", properties=properties or OWN)


def received(**more: str) -> MessageExt:
    return MessageExt("T", b"x", properties={**SYSTEM, **OWN, "UNIQ_KEY": "A" * 32, **more})


def stored(properties: Mapping[str, str]) -> StoredMessage:
    record = encode_record(
        topic=b"T", body=b"x", properties=encode_properties(properties).encode(), queue_id=0, flag=0, queue_offset=0,
        physical_offset=0, sys_flag=0, born_timestamp=0, born_host=bytes(8), store_timestamp=0, store_host=bytes(8),
    )  # fmt: skip
    made = decode_record(record)
    assert isinstance(made, StoredMessage)
    return made


def test_a_message_has_properties_of_its_user_and_of_rocketmq() -> None:
    sent = message()
    assert sent.properties == OWN
    assert sent.system_properties == SYSTEM
    assert sent.wire_properties == SYSTEM | OWN
    got = received()
    assert got.properties == OWN
    assert got.system_properties == SYSTEM | {"UNIQ_KEY": "A" * 32}
    assert got.wire_properties == SYSTEM | OWN | {"UNIQ_KEY": "A" * 32}


@given(property_maps())
def test_every_property_is_on_one_side(properties: dict[str, str]) -> None:
    got = MessageExt("T", b"x", properties=properties)
    assert got.properties | got.system_properties == properties
    assert len(got.properties) + len(got.system_properties) == len(properties)
    assert not got.properties.keys() & got.system_properties.keys()
    assert not got.properties.keys() & RESERVED_PROPERTIES
    assert got.system_properties.keys() <= RESERVED_PROPERTIES


@pytest.mark.parametrize("of", [message, received])
def test_the_user_s_properties_are_read_as_a_dict_is(of: Any) -> None:
    view = of().properties
    assert (view["shop"], view.get("shop"), view.get("none"), view.get("none", "x")) == ("north", "north", None, "x")
    assert ("shop" in view, "none" in view, "TAGS" in view, len(view), bool(view)) == (True, False, False, 2, True)
    assert (list(view), list(view.values()), list(view.items())) == ([*OWN], [*OWN.values()], [*OWN.items()])
    assert dict(view) == {**view} == view.copy() == OWN
    assert repr(view) == repr(OWN)
    assert json.dumps(dict(view)) == json.dumps(OWN)
    for found in (dict(view), view.copy(), view | {}, {} | view):
        assert type(found) is dict
    assert view | {"shop": "south"} == {**OWN, "shop": "south"}
    assert {"shop": "south", "a": "b"} | view == {**OWN, "a": "b"}
    with pytest.raises(KeyError, match="none"):
        view["none"]
    with pytest.raises(TypeError):
        view | [("a", "b")]
    match view:
        case {"shop": shop}:
            assert shop == "north"


@pytest.mark.parametrize("of", [message, received])
def test_each_side_says_where_a_name_of_the_other_is(of: Any) -> None:
    made = of()
    assert (made.properties.get("TAGS"), made.properties.get("TAGS", "none")) == (None, "none")
    with pytest.raises(KeyError, match=r"'TAGS' is a name of RocketMQ's own properties: look in `system_properties`"):
        made.properties["TAGS"]
    assert (made.system_properties.get("shop"), "shop" in made.system_properties) == (None, False)
    with pytest.raises(KeyError, match=r"'shop' is no name of RocketMQ's own properties: look in `properties`"):
        made.system_properties["shop"]
    with pytest.raises(KeyError, match=r"^'UNIQ_KEY'$"):
        message().system_properties["UNIQ_KEY"]


def test_rocketmq_s_properties_are_read_as_a_dict_is() -> None:
    view = message().system_properties
    assert (view["TAGS"], view.get("DELAY", "0"), len(view), repr(view)) == ("t", "0", 4, repr({**view}))
    assert dict(view) == view.copy() == SYSTEM
    assert type(view | {}) is type({} | view) is dict


@pytest.mark.parametrize("of", [message, received])
def test_views_of_one_message_are_equal_and_cannot_be_hashed(of: Any) -> None:
    made = of()
    for name in ("properties", "system_properties"):
        one, two = getattr(made, name), getattr(made, name)
        assert one == two == getattr(copy.copy(made), name)
        assert one == dict(one)
        assert dict(one) == one
        assert one != {**one, "more": "x"}
        assert one not in ([*one], None)
        with pytest.raises(TypeError, match="unhashable"):
            hash(one)
    assert made.properties != made.system_properties
    assert message().properties == received().properties


# --- writing ------------------------------------------------------------------------------------------


def test_what_is_set_is_sent_and_every_view_shows_it() -> None:
    sent = message()
    view, before = sent.properties, sent.properties.copy()
    sent.properties["size"] = "large"
    sent.properties.update(shop="south", more="x")
    assert view == {**OWN, "size": "large", "shop": "south", "more": "x"}
    assert sent.wire_properties == SYSTEM | view
    assert before == OWN
    assert (view.pop("size"), view.pop("none", "x"), view.setdefault("size", "s")) == ("large", "x", "s")
    del view["more"], view["size"]
    view |= {"more": "y"}
    assert sent.properties == view == {**OWN, "shop": "south", "more": "y"}
    sent.properties |= {"again": "z"}
    assert sent.properties == {**OWN, "shop": "south", "more": "y", "again": "z"}
    sent.properties.clear()
    assert sent.properties == {}
    assert not sent.properties
    assert sent.wire_properties == SYSTEM
    assert isinstance(view, MutableMapping)


def test_assigning_a_dict_replaces_the_user_s_properties_alone() -> None:
    sent = message()
    sent.properties = {"a": "b"}
    assert sent.wire_properties == SYSTEM | {"a": "b"}
    sent.properties = received().properties  # of another message, without what RocketMQ put on that
    assert sent.wire_properties == SYSTEM | OWN
    again = copy.copy(sent)
    again.properties = {}
    assert (again.properties, sent.properties) == ({}, OWN)
    for wrong in ({"a": "b", "TAGS": "t"}, {"a": 5}, [("a", "b")], None):
        with pytest.raises(ConfigError):
            sent.properties = wrong  # type: ignore[assignment]
        assert sent.wire_properties == SYSTEM | OWN


def test_reserved_names_are_neither_set_nor_deleted() -> None:
    sent = message()
    for name in sorted(RESERVED_PROPERTIES):
        with pytest.raises(ConfigError, match=f"'{name}' is used by RocketMQ itself"):
            sent.properties[name] = "v"
        with pytest.raises(KeyError, match="look in `system_properties`"):
            del sent.properties[name]
        assert sent.properties.pop(name, "none") == "none"
    with pytest.raises(KeyError, match="none"):
        del sent.properties["none"]
    assert sent.wire_properties == SYSTEM | OWN


BAD = [None, "", " ", "\t\n", 5, b"x", "a\x01", "\x02b", "x\x01TAGS\x02", "\x01", True, 1.5, ("a",)]
ODD = ["a\x00b", "\ud800", "x" * 70_000, "é", " a ", "\u202e", "a\nb"]
"""What the argument takes, too: the size, and what cannot be encoded, are seen by the producer."""


def outcome(function: Callable[[], dict[str, str]]) -> object:
    try:
        return function()
    except ConfigError as exc:
        return str(exc)


@given(st.sampled_from([*BAD, *ODD]) | st.text(), st.sampled_from([*BAD, *ODD]) | st.text())
def test_threat_M7_what_is_set_is_checked_as_the_argument_is(name: Any, value: Any) -> None:
    def made() -> dict[str, str]:
        return Message("T", b"x", properties={name: value}).wire_properties

    def changed() -> dict[str, str]:
        sent = Message("T", b"x")
        sent.properties[name] = value
        return sent.wire_properties

    def replaced() -> dict[str, str]:
        sent = Message("T", b"x")
        sent.properties = {name: value}
        return sent.wire_properties

    assert outcome(changed) == outcome(replaced) == outcome(made)


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_threat_M7_what_no_property_can_be_is_refused(bad: Any) -> None:
    sent = message()
    with pytest.raises(ConfigError, match="property"):
        sent.properties["name"] = bad
    with pytest.raises(ConfigError, match="property name"):
        sent.properties[bad] = "value"
    assert sent.wire_properties == SYSTEM | OWN


@pytest.mark.parametrize("name", [[], {}], ids=repr)
def test_what_cannot_be_hashed_is_no_name(name: Any) -> None:
    for view in (message().properties, received().properties, message().system_properties):
        for use in (view.__getitem__, view.__contains__, view.get):
            with pytest.raises(TypeError, match="unhashable"):
                use(name)
    with pytest.raises(TypeError, match="unhashable"):
        message().properties[name] = "x"


@given(user_properties())
def test_P16_properties_go_from_message_to_message(properties: dict[str, str]) -> None:
    first = Message("T", b"x", tags="t", properties=properties)
    assert Message("T", b"x", properties=first.properties).wire_properties == {"WAIT": "true", **properties}


def test_what_was_received_cannot_be_changed() -> None:
    for got in (received(), stored(SYSTEM | OWN)):
        received_text = "^the properties of a received message cannot be changed: .* make a new Message with"
        system_text = "^RocketMQ's own properties cannot be changed: Message has arguments for those"
        for view, text in (
            (got.properties, received_text),
            (got.system_properties, system_text),
            (message().system_properties, system_text),
        ):
            changed: Any = view
            with pytest.raises(TypeError, match=text):
                changed["a"] = "b"
            with pytest.raises(TypeError, match=text):
                del changed["shop"]
            assert not isinstance(view, MutableMapping)
        writable: Any = got
        for name in ("properties", "system_properties", "wire_properties"):
            with pytest.raises(AttributeError):
                setattr(writable, name, {})
        assert got.properties == OWN
    writable = message()
    with pytest.raises(AttributeError):
        writable.system_properties = {}


# --- copies, and what is stored -----------------------------------------------------------------------


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_messages_and_views_can_be_copied_and_pickled(again: Any) -> None:
    for made in (message(), received()):
        whole = again(made)
        assert type(whole) is type(made)
        assert (whole.properties, whole.system_properties) == (made.properties, made.system_properties)
        for view in (made.properties, made.system_properties):
            apart = again(view)
            assert type(apart) is dict
            assert apart == view
            apart["more"] = "x"
            assert "more" not in made.wire_properties


def test_the_properties_of_a_stored_message_are_taken_apart_when_they_are_wanted() -> None:
    for name in ("properties", "system_properties", "wire_properties"):
        got = stored(SYSTEM | OWN)
        assert (got.topic, got.body, got.queue_offset) == ("T", b"x", 0)
        assert got._packed_properties is not None
        assert not hasattr(got, "_properties")
        getattr(got, name)
        assert got._packed_properties is None
        assert (got.properties, got.system_properties, got.tags) == (OWN, SYSTEM, "t")
        assert got.wire_properties is got.wire_properties


def test_views_ask_only_for_what_a_mapping_has() -> None:
    class Few(Mapping[str, str]):
        def __getitem__(self, name: str) -> str:
            return OWN[name]

        def __iter__(self) -> Iterator[str]:
            return iter(OWN)

        def __len__(self) -> int:
            return len(OWN)

    sent = message(a="b")
    assert sent.properties | Few() == Few() | sent.properties == {"a": "b"} | OWN
    sent.properties = Few()
    assert sent.properties == Few()
