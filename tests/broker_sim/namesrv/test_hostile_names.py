"""Names and texts that would like to write log lines, sent to a name server."""

from __future__ import annotations

import logging

import pytest
from trio.testing import MockClock

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.route import PutKVConfigRequestHeader
from tests.broker_sim.namesrv.test_server import body, register, running
from tests.hostile.texts import HOSTILE, assert_harmless


@pytest.mark.parametrize("text", HOSTILE)
async def test_threat_A5_a_name_server_logs_no_line_of_a_peers(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with running() as peer:
            await peer.ask(register(body("good").encode()))
            await peer.ask(register(body(text).encode(), broker_name="other"))
            await peer.ask(register(body("t").encode(), broker_name=text))
            await peer.ask(register(body("t").encode(), cluster_name=text))
            await peer.ask(register(body("t").encode(), broker_addr=text))
            await peer.ask(register(text.encode(), broker_name="third"))
            await peer.route(text)
            put = PutKVConfigRequestHeader(namespace=text, key=text, value=text)
            await peer.ask(RequestCode.PUT_KV_CONFIG, put)
            await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, data=f"enableTopicList=true\n{text}=1".encode())
            await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, data=b"enableTopicList=true")
            for code in (RequestCode.DELETE_TOPIC_IN_NAMESRV, RequestCode.GET_TOPICS_BY_CLUSTER):
                await peer.ask(code, topic=text, cluster=text, clusterName=text)
            await peer.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName=text)
    assert_harmless(caplog)
