"""Servers whose names and remarks would like to write log lines, and what a client logs of them."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from rocketpy.errors import RocketMQError
from rocketpy.remoting.connection import Connection
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from tests.client.fakes import FakeConsumer, FakeProducer
from tests.client.test_instance import open_world
from tests.hostile.texts import HOSTILE, assert_harmless, said


@pytest.mark.parametrize("text", HOSTILE)
async def test_threat_A5_a_client_logs_no_line_of_a_server_s(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    def refuse(_: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.answer(ResponseCode.SYSTEM_ERROR, text, {text: text})

    with caplog.at_level(logging.DEBUG):
        async with open_world() as world, world.client() as client:
            await client.routes.ensure("T")
            client.register_producer("p", FakeProducer())
            client.register_consumer("c", FakeConsumer("c", "T"))
            await trio.sleep(1)
            link = world.brokers[0].clients[0]
            for code in (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, 9999):
                link.send_oneway(RemotingCommand(code, {"consumerGroup": text, text: text}, remark=text))
            world.brokers[0].on(RequestCode.HEART_BEAT, refuse)
            world.names.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, refuse)
            with pytest.raises(RocketMQError) as told:
                await client.routes.ensure("other")
            await trio.sleep(100)
    assert str(told.value).isprintable()
    assert_harmless(caplog)
    assert "heartbeat to broker broker-a" in said(caplog)
