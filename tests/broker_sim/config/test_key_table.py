"""Every key of Apache's stands in one table: honoured, without effect or refused, and what the table says is true."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import attrs
import pytest

import rocketpy_broker_sim
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.router import lanes_of, routes_of
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.config import broker as broker_module
from rocketpy_broker_sim.config.keys import key_of, text_of
from rocketpy_broker_sim.config.refused import NOT_OF_SERVERS
from rocketpy_broker_sim.config.table import (
    OTHER_DEFAULTS,
    KeyRow,
    KeyStatus,
    broker_keys,
    closest_key,
    namesrv_keys,
)
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.interop.config_keys import Key, read_golden

BROKER = ("BrokerConfig", "MessageStoreConfig", "NettyServerConfig", "NettyClientConfig", "AuthConfig")
NAMESRV = ("NamesrvConfig", "NettyServerConfig", "NettyClientConfig", "ControllerConfig")
TABLES = {"broker": (broker_keys(), BROKER), "name server": (namesrv_keys(), NAMESRV)}
ROWS = [(server, row) for server, (rows, _) in TABLES.items() for row in rows.values()]
# Its fields are read by a name that is put together; the tests of lanes below know them.
READ_BY_NAME = "wait_time_mills_in_"
# How many at once, how many may wait, and for how long. The names are Java's, irregular as they are.
KEYS_OF_LANE = {
    "heartbeat": ("heartbeatThreadPoolNums", "heartbeatThreadPoolQueueCapacity", "waitTimeMillsInHeartbeatQueue"),
    "send": ("sendMessageThreadPoolNums", "sendThreadPoolQueueCapacity", "waitTimeMillsInSendQueue"),
    "pull": ("pullMessageThreadPoolNums", "pullThreadPoolQueueCapacity", "waitTimeMillsInPullQueue"),
    "lite pull": (
        "litePullMessageThreadPoolNums",
        "litePullThreadPoolQueueCapacity",
        "waitTimeMillsInLitePullQueue",
    ),
    "reply": ("processReplyMessageThreadPoolNums", "replyThreadPoolQueueCapacity"),
    "query": ("queryMessageThreadPoolNums", "queryThreadPoolQueueCapacity"),
    "end transaction": (
        "endTransactionThreadPoolNums",
        "endTransactionPoolQueueCapacity",
        "waitTimeMillsInTransactionQueue",
    ),
    "client": ("clientManageThreadPoolNums", "clientManagerThreadPoolQueueCapacity"),
    "consumer": ("consumerManageThreadPoolNums", "consumerManagerThreadPoolQueueCapacity"),
    "ack": ("ackMessageThreadPoolNums", "ackThreadPoolQueueCapacity", "waitTimeMillsInAckQueue"),
    "admin": ("adminBrokerThreadPoolNums", "adminBrokerThreadPoolQueueCapacity", "waitTimeMillsInAdminBrokerQueue"),
}


def keys_of_lanes() -> set[str]:
    return {key for keys in KEYS_OF_LANE.values() for key in keys}


def golden(owners: tuple[str, ...]) -> dict[str, Key]:
    """The keys that a file may hold; where two classes share one, that of the first."""
    found: dict[str, Key] = {}
    for each in read_golden():
        if each.owner in owners and (
            each.key not in found or owners.index(each.owner) < owners.index(found[each.key].owner)
        ):
            found[each.key] = each
    return found


READERS = {"broker": {"broker", "store", "cli", "metrics"}, "name server": {"namesrv", "cli", "metrics"}}
"""Where the settings of a server are read: a key that both have means nothing to the one that does not look at it."""


def read_by(server: str) -> set[str]:
    root = Path(rocketpy_broker_sim.__file__).parent
    paths = [path for path in root.rglob("*.py") if path.relative_to(root).parts[0] in READERS[server]]
    trees = [ast.parse(path.read_text("utf-8")) for path in paths]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    return {node.attr for node in nodes if isinstance(node.ctx, ast.Load)}


@pytest.mark.parametrize("server", TABLES)
def test_the_table_has_every_key_of_apaches_and_no_other(server: str) -> None:
    rows, owners = TABLES[server]
    keys = set(golden(owners))
    assert keys - set(rows) == set(), "keys of Apache's that nobody decided about"
    assert {key for key, row in rows.items() if not row.own} - keys == set(), "no release has these"
    assert not keys & set(NOT_OF_SERVERS)


@pytest.mark.parametrize(("server", "row"), ROWS, ids=lambda value: getattr(value, "key", value))
def test_a_row_says_why_and_keeps_only_what_it_can_use(server: str, row: KeyRow) -> None:
    del server
    if row.status is KeyStatus.HONOURED:
        assert row.field is not None
        assert row.reason == ""
    else:
        assert 0 < len(row.reason) < 80
    if row.status is KeyStatus.WITHOUT_EFFECT and row.key not in keys_of_lanes():
        assert row.field is None, "a value that is kept is read by somebody, or else not kept"


@pytest.mark.parametrize("lane", KEYS_OF_LANE)
def test_bounds_of_a_lane_are_honoured_when_it_takes_requests(lane: str) -> None:
    taken = {route.lane for route in routes_of(Broker(BrokerConfig(), MemoryStorage())._views).values()}
    expected = KeyStatus.HONOURED if lane in taken else KeyStatus.WITHOUT_EFFECT
    assert {broker_keys()[key].status for key in KEYS_OF_LANE[lane]} == {expected}


def test_the_bounds_of_a_lane_come_from_its_keys() -> None:
    config = BrokerConfig()
    for number, key in enumerate(sorted(keys_of_lanes()), 2):
        field = broker_keys()[key].field
        assert field is not None
        setattr(config, field.name, number)
    given = {key: number for number, key in enumerate(sorted(keys_of_lanes()), 2)}
    for lane in lanes_of(config):
        threads, capacity, *wait = KEYS_OF_LANE[lane.name]
        assert (lane.threads, lane.capacity) == (given[threads], given[capacity])
        assert lane.max_age() == (given[wait[0]] / 1000 if wait else 0.0)
    assert {lane.name for lane in lanes_of(config)} == set(KEYS_OF_LANE)


@pytest.mark.slow
@pytest.mark.parametrize("server", TABLES)
def test_what_is_said_to_be_honoured_is_read(server: str) -> None:
    read = read_by(server)
    rows = TABLES[server][0].values()
    honoured = {row.field.name for row in rows if row.status is KeyStatus.HONOURED and row.field is not None}
    assert {name for name in honoured - read if not name.startswith(READ_BY_NAME)} == set()


def four_processors(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The broker's settings as a machine with four processors has them, as the golden list was made on."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    spec = importlib.util.spec_from_file_location("four_processors", broker_module.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "four_processors", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("server", TABLES)
def test_defaults_are_javas_or_say_why_not(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, owners = TABLES[server]
    fresh = four_processors(monkeypatch).BrokerConfig()
    of_four = {key_of(field): getattr(fresh, field.name) for field in attrs.fields(type(fresh))}
    javas = golden(owners)
    different = {}
    for key, row in rows.items():
        if row.default is None or row.own:
            continue
        ours = text_of(of_four[key]) if server == "broker" and key in of_four else row.default
        if ours != javas[key].defaults[-1]:
            different[key] = (ours, javas[key].defaults[-1])
    assert {key: pair for key, pair in different.items() if key not in OTHER_DEFAULTS} == {}


def test_every_reason_for_a_default_is_needed() -> None:
    javas = {**golden(NAMESRV), **golden(BROKER)}
    rows = {**TABLES["name server"][0], **TABLES["broker"][0]}
    assert {key for key in OTHER_DEFAULTS if rows[key].default == javas[key].defaults[-1]} == set()


def test_our_own_keys_are_marked_as_such() -> None:
    own = {row.key for _, row in ROWS if row.own}
    held = {"maxHeldPulls", "maxHeldPullsPerConnection", "maxHoldMillis"}
    members = {"maxClientsPerGroup", "maxGroupsPerClient", "maxMemberships"}
    assert own == {
        "maxConsumerOffsets",
        "maxGroups",
        "maxKeptBytes",
        "maxQueues",
        "maxTopics",
        "memorySize",
        *held,
        *members,
    }


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("brokerNmae", "brokerName"),
        ("BROKERNAME", "brokerName"),
        ("mapedFileSizeCommitLog", "mappedFileSizeCommitLog"),
        ("flushDiskTyp", "flushDiskType"),
        ("somethingElse", None),
    ],
)
def test_the_key_that_was_meant_is_found(given: str, meant: str | None) -> None:
    assert closest_key(given, broker_keys()) == meant
