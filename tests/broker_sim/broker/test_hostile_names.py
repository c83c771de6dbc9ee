"""Names and texts that would like to write log lines, sent to every entry of a broker."""

from __future__ import annotations

import logging

import pytest
from trio.testing import MockClock

from rocketpy.wire.codes import RequestCode
from tests.broker_sim.broker.kit import broker_and_client
from tests.broker_sim.broker.test_names_on_every_entry import answers
from tests.hostile.texts import HOSTILE, assert_harmless, said


@pytest.mark.parametrize("text", HOSTILE)
async def test_threat_A5_a_broker_logs_no_line_of_a_peers(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with broker_and_client() as (_, client):
            await client.send()
            await answers(client, text)
            await client.heartbeat("g", "T", client_id=text)
            await client.heartbeat("g", "T", client_id=text[::-1])
            await client.heartbeat(text, text, client_id=text)
            await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=f"traceOn=true\n{text}=1".encode())
            await client.ask(RequestCode.UPDATE_BROKER_CONFIG, {text: text}, text.encode(), remark=text)
            await client.ask(9999, {text: text}, remark=text)
            await client.send(text, properties=f"KEYS\x01{text}\x02")
            await client.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": text, "consumerGroup": text})
            await client.ask(RequestCode.CHECK_CLIENT_CONFIG, body=text.encode())
    assert_harmless(caplog)
    assert "create group g" in said(caplog)
