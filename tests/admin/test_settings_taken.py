"""Settings that are sent to servers arrive as they are, and those that a server has ignored are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from trio.testing import MockClock

from rocketpy import Admin, BrokerError, ConfigError
from rocketpy.admin.settings import check_taken
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.properties_text import read_properties
from rocketpy_broker_sim.config import BROKER_UPDATES
from tests.admin.scene import scene
from tests.client.fakes import FakeBroker, FakeNameServer, route_to


@asynccontextmanager
async def lenient(held: dict[str, str]) -> AsyncIterator[Admin]:
    """An Admin whose servers, as Apache's, accept any setting, and take only those that they have."""
    network, names, broker = MemoryNetwork(), FakeNameServer(), FakeBroker()

    def update(_: Connection, request: RemotingCommand) -> RemotingCommand:
        held.update({k: v for k, v in read_properties(bytes(request.body).decode("latin-1")).items() if k in held})
        return request.answer()

    def tell(_: Connection, request: RemotingCommand) -> RemotingCommand:
        lines = (f"{key}={value}\n" for key, value in held.items())
        return request.answer(body="".join(lines).replace("\\", "\\\\").encode())

    for server, codes in (
        (broker, (RequestCode.UPDATE_BROKER_CONFIG, RequestCode.GET_BROKER_CONFIG)),
        (names, (RequestCode.UPDATE_NAMESRV_CONFIG, RequestCode.GET_NAMESRV_CONFIG)),
    ):
        server.on(codes[0], update)
        server.on(codes[1], tell)
    async with names.open(network), broker.open(network):
        names.routes = {"Orders": route_to(broker)}
        async with Admin(namesrv=names.address, network=network, request_timeout=2) as admin:
            yield admin


async def test_a_setting_that_a_server_ignores(autojump_clock: MockClock) -> None:
    async with lenient({"known": "1"}) as admin:
        for change in (admin.brokers.update_config, admin.name_servers.update_config):
            await change({"known": 2})
            with pytest.raises(BrokerError, match="accepted unknown=1, and ignored it: it has no such setting"):
                await change({"unknown": 1})


async def test_values_arrive_as_they_are(autojump_clock: MockClock) -> None:
    held = {"path": ""}
    async with lenient(held) as admin:
        for value in ("C:\\temp\\new", "a=b:c#d!e", "\\u0041", "größe 漢字 😀", "tab\there"):
            await admin.brokers.update_config({"path": value})
            assert held["path"] == value


@pytest.mark.parametrize("key", ["", "#comment", "!comment", "a b", "a=b", "a\nb", "a\\b", "a\x00b"])
async def test_keys_that_a_server_would_read_as_something_else(autojump_clock: MockClock, key: str) -> None:
    async with lenient({}) as admin:
        for change in (admin.brokers.update_config, admin.name_servers.update_config):
            with pytest.raises(ConfigError, match="a setting is a key with"):
                await change({key: "1"})


async def test_every_setting_that_our_broker_lets_change_is_read_back(autojump_clock: MockClock) -> None:
    async with scene() as s:
        before = (await s.admin.brokers.config("broker-a")).settings
        for key, (least, most) in BROKER_UPDATES.items():
            value = before[key]
            is_number = value.lstrip("-").isdecimal()
            await s.admin.brokers.update_config({key: min(most, max(least, int(value))) if is_number else value})


@pytest.mark.parametrize(("wanted", "found"), [("TRUE", "true"), ("1", "1.0"), (" a ", "a"), ("1e3", "1000")])
def test_the_same_value_in_another_form(wanted: str, found: str) -> None:
    check_taken({"key": wanted}, {"key": found}, "h:1")


def test_a_value_that_was_not_taken() -> None:
    with pytest.raises(BrokerError, match=r"accepted key=abc, and ignored it: it has key=4; the same goes for other"):
        check_taken({"key": "abc", "other": "x"}, {"key": "4", "other": "y"}, "h:1")
