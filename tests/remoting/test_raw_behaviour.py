"""Hand-made frames, broken ones too: our server does what Apache's name servers did with them.

The recorded servers answered what they know of topics; here a processor gives the same answer, so that what is
compared is the transport: answered, closed, or nothing, and whether the connection still works.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.serialize import encode_command
from tests.remoting.helpers import connect, is_closed, read_command, running_server

GOLDEN = Path(__file__).parent.parent / "golden" / "wire" / "raw_behaviour.json"
CASES = [case for case in json.loads(GOLDEN.read_text("utf-8")) if case["server"] == "5.3.3 answering JSON"]

# Where ours differs, and why.
OURS = {
    "json_empty_header": "closed",  # Apache's lets the connection hang in a useless state
    "total_4_header_0": "closed",
    "total_zero": "closed",
    "total_16777212": "closed",  # its header has no bytes, which is told from the first eight
    "first_byte_tls_0x16": "closed",  # no TLS on this port
    "proxy_v1": "closed",  # the PROXY protocol is not spoken, as with 4.9.7
}


def route(_: Connection, request: RemotingCommand) -> RemotingCommand:
    topic = request.ext_fields.get("topic") or "null"
    return request.answer(17, f"No topic route info in name server for the topic: {topic}\nSee")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
async def test_hand_made_frames_meet_what_apache_does(
    memory: MemoryNetwork, clock: MockClock, case: dict[str, Any]
) -> None:
    expected = OURS.get(case["case"], case["result"])
    async with running_server(memory, RequestDispatcher({105: route})) as server:
        stream = await connect(memory, server)
        await stream.send_all(base64.b64decode(case["sent_b64"]))
        if expected == "answered":
            await check_answer(stream, case["answer"])
        elif expected == "closed":
            assert await is_closed(stream)
        else:
            assert expected == "no answer"
            with trio.move_on_after(20) as scope:
                await read_command(stream)
            assert scope.cancelled_caught
        if case.get("connection_after") == "usable":
            await stream.send_all(encode_command(RemotingCommand(105, {"topic": "T"}, opaque=99)))
            assert (await read_command(stream)).opaque == 99


async def check_answer(stream: trio.abc.Stream, expected: dict[str, Any]) -> None:
    answer = await read_command(stream)
    assert (answer.code, answer.opaque, answer.flag) == (expected["code"], expected["opaque"], expected["flag"])
    assert (answer.remark or "").split("\n")[0] == expected["remark"].split("\n")[0]
