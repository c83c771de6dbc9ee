"""Hand-made frames, broken ones too, that were sent to three of Apache's name servers: we read them as those did."""

from __future__ import annotations

import base64
import json
from typing import Any

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.serialize import decode_command
from tests.tables import Table
from tests.wire.golden import FOLDER

CASES: list[dict[str, Any]] = json.loads((FOLDER / "raw_behaviour.json").read_text("utf-8"))

# What the decoder does not leave to the name server. The start of TLS is told apart before it reaches a decoder; the
# PROXY protocol is not spoken (4.9.7 closes, too); a frame without a header is refused once it can be seen, not later.
OWN = {
    "first_byte_tls_0x16": "refused",
    "proxy_v1": "refused",
    "total_16777212": "refused",
    "json_empty_header": "refused",
    "total_4_header_0": "refused",
    "total_zero": "refused",
}


def outcome(data: bytes) -> str | list[RemotingCommand]:
    decoder = FrameDecoder()
    decoder.receive_data(data)
    try:
        commands = [decode_command(frame) for frame in decoder.frames()]
        return commands or (decoder.frames() and []) or "waiting"
    except RemoteProtocolError:
        return "refused"


def test_read_as_apache_reads() -> None:
    with Table() as table:
        for case in CASES:
            with table.row(f"{case['case']} at {case['server']}"):
                found = outcome(base64.b64decode(case["sent_b64"]))
                if case["case"] in OWN:
                    assert found == OWN[case["case"]]
                elif case["result"] == "closed":
                    assert found == "refused"
                else:
                    assert isinstance(found, list)
                    (command,) = found
                    assert command.is_response == (case["case"] == "response_flag_unknown_opaque")
                    if case["result"] == "answered":
                        assert command.opaque == case["answer"]["opaque"]
                        assert not command.is_oneway


def test_answers_are_read() -> None:
    with Table() as table:
        for case in [case for case in CASES if case.get("answer")]:
            with table.row(f"{case['case']} at {case['server']}"):
                found = outcome(base64.b64decode(case["answer_b64"]))
                assert isinstance(found, list)
                (command,) = found
                noted = case["answer"]
                assert (command.code, command.opaque, command.flag) == (noted["code"], noted["opaque"], noted["flag"])
                assert (command.version, command.remark, command.serialize_type.name) == (
                    noted["version"],
                    noted["remark"],
                    noted["serialize"],
                )


def test_what_is_left_open_by_the_language_is_told() -> None:
    by_name = {case["case"]: outcome(base64.b64decode(case["sent_b64"])) for case in CASES}
    for name, language in (("json_unknown_language", None), ("rocketmq_unknown_language_byte", None)):
        (command,) = by_name[name]
        assert isinstance(command, RemotingCommand)
        assert command.language is language
