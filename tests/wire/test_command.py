"""RemotingCommand itself: what it is in a log."""

from __future__ import annotations

from rocketpy.wire.catalogue.headers.plain_access import CreateAccessConfigRequestHeader
from rocketpy.wire.codes import RequestCode, request_name, response_name
from rocketpy.wire.command import RemotingCommand


def test_short_form_for_logs() -> None:
    request = RemotingCommand(RequestCode.PULL_MESSAGE, {"secret": "x"}, b"body", opaque=7)
    assert str(request) == "request PULL_MESSAGE 7"
    assert str(request.answer(17, "no such topic")) == "answer TOPIC_NOT_EXIST to 7"
    assert str(RemotingCommand.oneway(15)) == "oneway request UPDATE_CONSUMER_OFFSET 0"


def test_names_of_codes() -> None:
    assert (request_name(10), request_name(31337)) == ("SEND_MESSAGE", "31337")
    assert (response_name(0), response_name(31337)) == ("SUCCESS", "31337")


def test_threat_A6_the_long_form_shows_no_secret_and_no_body() -> None:
    header = CreateAccessConfigRequestHeader(access_key="ali", secret_key="sesame")
    signed = {**header.to_ext(), "SecurityToken": "sesame", "Signature": "sesame"}
    request = RemotingCommand(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, signed, b"sesame")
    assert "sesame" not in f"{header!r} {request!r}"
    assert "'accessKey': 'ali'" in repr(request)
    assert "<6 bytes>" in repr(request)
