"""RemotingCommand itself: what it is in a log."""

from __future__ import annotations

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
