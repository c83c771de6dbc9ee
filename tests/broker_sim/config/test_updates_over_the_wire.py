"""Anyone who reaches the port of a server may change harmless settings; other keys are refused, whatever their case."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy_broker_sim.config import BROKER_UPDATES, NAMESRV_UPDATES
from rocketpy_broker_sim.config.table import broker_keys, namesrv_keys
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import broker_and_client
from tests.broker_sim.broker.test_names_on_every_entry import files
from tests.broker_sim.namesrv.test_server import running

# Paths, ports, addresses, classes and homes are among the keys of the table; these are in no table.
MORE = {
    "java.home",
    "PATH",
    "user.dir",
    "filterServerNums",
    "rmqAddressServerDomain",
    "",
    "a b",
    "../../x",
    "__class__",
}


def refused_keys(known: set[str], allowed: set[str]) -> list[str]:
    """Every known key in its own case and in two others, and some that nobody knows."""
    spelled = {each for key in known for each in (key, key.lower(), key.upper(), f" {key}\x00")} | MORE
    return sorted(spelled - allowed)


def a_line(key: str) -> bytes:
    """The key as a properties text has to write it."""
    return "".join(f"\\u{ord(char):04x}" for char in key).encode() + b"=1\n"


@pytest.mark.slow
async def test_threat_A2_a_broker_changes_nothing_that_is_not_listed(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        before, paths = repr(broker.config), files(storage)
        for key in refused_keys(set(broker_keys()), set(BROKER_UPDATES)):
            answer = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=false\n" + a_line(key))
            assert answer.code == ResponseCode.NO_PERMISSION, key
            assert (answer.remark or "").isprintable(), key
        assert repr(broker.config) == before
        assert files(storage) == paths


async def test_threat_A2_a_name_server_changes_nothing_that_is_not_listed(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with running(storage) as peer:
        before, paths = repr(peer.server.config), files(storage)
        for key in refused_keys(set(namesrv_keys()), set(NAMESRV_UPDATES)):
            answer = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, data=b"enableTopicList=false\n" + a_line(key))
            assert answer.code == ResponseCode.NO_PERMISSION, key
            assert (answer.remark or "").isprintable(), key
        assert repr(peer.server.config) == before
        assert files(storage) == paths == []


async def test_threat_A2_what_may_change_changes_and_is_written_nowhere(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        paths = files(storage)
        for key, (low, high) in BROKER_UPDATES.items():
            value = ("false", "true")[high] if (low, high) == (0, 1) else str(high)
            assert (await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=f"{key}={value}".encode())).code == 0, key
        assert broker.config.broker_permission == 7
        # The topics get a new version, for name servers to hear of the permission; no file holds a setting.
        assert set(files(storage)) - set(paths) <= {"config/topics.json"}


async def test_threat_A2_a_name_server_answers_to_what_is_no_text(autojump_clock: MockClock) -> None:
    async with running() as peer:
        for data in (b"\xff", b"enableTopicList=\\u00g1", b"x" * 100_000, b"waitSecondsForService=99999"):
            answer = await peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, data=data)
            assert answer.code == ResponseCode.INVALID_PARAMETER
