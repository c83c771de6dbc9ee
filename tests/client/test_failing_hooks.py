"""Request hooks that raise: calls get it as it is, and services go on."""

from __future__ import annotations

import logging

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.instance import MQClientInstance
from rocketpy.errors import ClientClosedError
from rocketpy.wire.command import RemotingCommand
from tests.client.fakes import FakeProducer
from tests.client.test_instance import open_world


class Broken:
    """Raises before requests or after answers, while it is told to."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.error: BaseException | None = None

    def before_request(self, address: str, command: RemotingCommand) -> None:
        if self._where == "before" and self.error is not None:
            raise self.error

    def after_answer(self, address: str, command: RemotingCommand, answer: RemotingCommand | None) -> None:
        if self._where == "after" and self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit("mine"), ClientClosedError("mine")], ids=repr)
@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_hook_that_raises_fails_requests_of_services_and_no_service(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, where: str, error: BaseException
) -> None:
    hook = Broken(where)
    async with open_world() as world:
        async with MQClientInstance(namesrv=world.names.address, network=world.network, hooks=[hook]) as client:
            client.register_producer("pg", FakeProducer())
            await client.routes.ensure("T")
            await trio.sleep(65)
            hook.error = error
            with pytest.raises(type(error), match="mine"):
                await client.routes.ensure("A")
            await trio.sleep(200)
            assert client.is_open
            lines = [line for line in map(logging.LogRecord.getMessage, caplog.records) if "hook failed" in line]
            assert len([line for line in lines if "heartbeat to broker broker-a" in line]) == 1
            assert len([line for line in lines if "the route of T is not refreshed" in line]) == 1
            sent = len(world.brokers[0].heartbeats)
            hook.error = None
            await trio.sleep(65)
            assert len(world.brokers[0].heartbeats) > sent
            assert len(client.heartbeats.answering) == 2
            hook.error = error  # closing tells the brokers, and nobody waits for what becomes of it
    assert not [record for record in caplog.records if "bug" in record.getMessage()]
