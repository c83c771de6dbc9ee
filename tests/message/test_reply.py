"""Replies are made of the requests that they answer, and of nothing else."""

from __future__ import annotations

import pytest

from rocketpy.errors import ConfigError
from rocketpy.message import Message, MessageExt
from rocketpy.message.reply import as_request, create_reply_message

ASKED = {
    "CLUSTER": "c1",
    "CORRELATION_ID": "id",
    "REPLY_TO_CLIENT": "me@1",
    "TTL": "3000",
    "UNIQ_KEY": "A",
    "mine": "x",
}


def request(**changes: str | None) -> MessageExt:
    properties = {name: value for name, value in (ASKED | changes).items() if value is not None}
    return MessageExt("T", b"how much?", properties=properties, broker_name="broker-b")


def test_S18_a_reply_carries_what_its_request_is_found_by() -> None:
    reply = create_reply_message(request(), b"42", tags="t", keys=["k"], properties={"unit": "EUR"})
    assert (reply.topic, reply.body) == ("c1_REPLY_TOPIC", b"42")
    assert reply.wire_properties == {
        "WAIT": "true",
        "unit": "EUR",
        "TAGS": "t",
        "KEYS": "k",
        "MSG_TYPE": "reply",
        "CORRELATION_ID": "id",
        "REPLY_TO_CLIENT": "me@1",
        "TTL": "3000",
    }


@pytest.mark.parametrize("name", ["CLUSTER", "CORRELATION_ID", "REPLY_TO_CLIENT"])
def test_S18_what_is_no_request_cannot_be_replied_to(name: str) -> None:
    with pytest.raises(ConfigError, match=f"no property {name}: it was sent with send"):
        create_reply_message(request(**{name: None}), b"42")


def test_S18_a_request_without_a_time_to_live_can_be_replied_to() -> None:
    assert "TTL" not in create_reply_message(request(TTL=None), b"42").system_properties


def test_S18_only_a_message_that_was_consumed_can_be_replied_to() -> None:
    with pytest.raises(ConfigError, match="expected the MessageExt that was consumed, got <Message"):
        create_reply_message(Message("T", b"x"), b"42")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="the body is empty"):
        create_reply_message(request(), b"")


def test_S18_a_request_is_a_copy_of_its_message() -> None:
    message = Message("T", b"x", tags="t", keys=["k"], sharding_key="s")
    message.flag = 7
    before = dict(message.wire_properties)
    made = as_request(message, correlation_id="id", client_id="me@1", ttl=250)
    assert message.wire_properties == before
    assert (made.topic, made.body, made.flag) == ("T", b"x", 7)
    assert made.wire_properties == before | {"CORRELATION_ID": "id", "REPLY_TO_CLIENT": "me@1", "TTL": "250"}


def test_S18_a_reply_is_not_asked_and_neither_is_anything_else() -> None:
    for wrong, words in (
        (create_reply_message(request(), b"42"), "the message is a reply, which cannot be a request"),
        ("x", "expected a Message"),
    ):
        with pytest.raises(ConfigError, match=words):
            as_request(wrong, correlation_id="id", client_id="me@1", ttl=1)  # type: ignore[arg-type]
