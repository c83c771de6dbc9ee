"""Brokers and name servers: settings, state, statistics, key-value configuration."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy import (
    BrokerError,
    BrokerNotFoundError,
    BrokersFailedError,
    ConfigError,
    ConnectError,
    NameServerUnreachableError,
    RequestTimeoutError,
)
from tests.admin.scene import scene


async def test_brokers_and_clusters(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        found = await s.admin.brokers.list()
        assert [(each.name, each.cluster, each.broker_id, each.is_master) for each in found] == [
            ("broker-a", "DefaultCluster", 0, True),
            ("broker-b", "DefaultCluster", 0, True),
        ]
        assert [each.address for each in found] == [each.address for each in s.world.cluster.brokers]
        assert await s.admin.brokers.list(cluster="DefaultCluster") == found
        with pytest.raises(BrokerNotFoundError, match="no cluster 'x'; known clusters: DefaultCluster") as caught:
            await s.admin.brokers.list(cluster="x")
        assert (caught.value.name, caught.value.known) == ("x", ("DefaultCluster",))


async def test_settings_of_brokers(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        address = s.world.cluster.brokers[1].address
        assert (await s.admin.brokers.config("broker-a"))["autoCreateTopicEnable"] == "true"
        await s.admin.brokers.update_config({"autoCreateTopicEnable": False, "defaultTopicQueueNums": 7})
        for name in ("broker-a", "broker-b", address):
            config = await s.admin.brokers.config(name)
            assert (config["autoCreateTopicEnable"], config["defaultTopicQueueNums"]) == ("false", "7")
        await s.admin.brokers.update_config({"defaultTopicQueueNums": 8}, brokers=[address])
        assert (await s.admin.brokers.config("broker-a"))["defaultTopicQueueNums"] == "7"
        assert (await s.admin.brokers.config("broker-b"))["defaultTopicQueueNums"] == "8"
        with pytest.raises(BrokerError, match="storePathRootDir"):
            await s.admin.brokers.update_config({"storePathRootDir": "/tmp"}, brokers=["broker-a"])
        with pytest.raises(BrokerNotFoundError, match="no broker 'x'; known brokers: broker-a, broker-b"):
            await s.admin.brokers.config("x")
        for wrong in ({}, {"a": None}, {1: "a"}, {"a=b": "c"}, {"a": "b\nc=d"}, "a=b", None):
            with pytest.raises(ConfigError):
                await s.admin.brokers.update_config(wrong)  # type: ignore[arg-type]
        for name in ("", "a b", ":", None):
            with pytest.raises(ConfigError):
                await s.admin.brokers.config(name)  # type: ignore[arg-type]


async def test_the_state_of_brokers(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        await s.world.send(20)
        await trio.sleep(30)
        one, two = await s.admin.brokers.runtimes()
        assert (one.broker, two.broker, one.version) == ("broker-a", "broker-b", "V5_3_3")
        assert (one.puts_today or 0) + (two.puts_today or 0) == 20
        assert one.commit_log_end == s.world.cluster.brokers[0].store.written_position
        assert one.started_at is not None
        assert one.oldest_message_at is not None
        assert one.values["brokerVersionDesc"] == "V5_3_3"
        assert (await s.admin.brokers.runtime("broker-b")).broker == "broker-b"


async def test_statistics_of_a_broker(autojump_clock: MockClock) -> None:
    async with scene() as s:
        await s.world.send(20)
        await trio.sleep(60)
        found = await s.admin.brokers.stats("broker-a", "TOPIC_PUT_NUMS", "Orders")
        assert found is not None
        assert (found.minute.sum, found.minute.average) == (20, 1.0)
        assert await s.admin.brokers.stats("broker-a", "TOPIC_PUT_NUMS", "Nowhere") is None


async def test_a_broker_that_hangs_is_named(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        address = s.world.cluster.brokers[1].address
        s.world.cluster.network.cut(address)
        s.world.cluster.network.hang(address)
        with pytest.raises(BrokersFailedError, match=r"1 of 2 servers: broker-b: .*succeeded on broker-a") as caught:
            await s.admin.brokers.update_config({"defaultTopicQueueNums": 7})
        assert isinstance(caught.value.failures["broker-b"], RequestTimeoutError | ConnectError)
        assert caught.value.result is None
        assert (await s.admin.brokers.config("broker-a"))["defaultTopicQueueNums"] == "7"
        s.up(1)
        assert (await s.admin.brokers.config("broker-b"))["defaultTopicQueueNums"] != "7"


async def test_ctrl_c_while_brokers_are_asked_stays_ctrl_c(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*args: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    async with scene(2) as s:
        s.down(1)
        monkeypatch.setattr(s.admin.client.pool, "get", interrupted)
        with pytest.raises(KeyboardInterrupt):
            await s.admin.brokers.runtimes()


async def test_a_broker_out_of_service(autojump_clock: MockClock) -> None:
    async with scene(2, name_servers=2) as s:
        assert await s.admin.brokers.set_writable("broker-a", False) > 0
        assert [each.permission for each in (await s.admin.topics.route("Orders")).brokers] == ["r", "rw"]
        await s.admin.brokers.set_writable("broker-a", True)
        assert [each.permission for each in (await s.admin.topics.route("Orders")).brokers] == ["rw", "rw"]
        with pytest.raises(BrokerNotFoundError):
            await s.admin.brokers.set_writable("nobody", False)
        with pytest.raises(ConfigError, match="by their names"):
            await s.admin.brokers.set_writable("127.0.0.1:10911", False)


async def test_brokers_clean_up(autojump_clock: MockClock) -> None:
    async with scene(2) as s:
        for clean in (
            s.admin.brokers.delete_expired_files,
            s.admin.brokers.delete_expired_queues,
            s.admin.brokers.delete_unused_queues,
        ):
            await clean()
            await clean(brokers=["broker-a"])
            await clean(cluster="DefaultCluster")


async def test_the_configuration_that_name_servers_keep(autojump_clock: MockClock) -> None:
    async with scene(name_servers=2) as s:
        servers = s.admin.name_servers
        assert servers.addresses == tuple(s.world.cluster.name_server_addresses.split(";"))
        assert await servers.get("room", "one") is None
        assert await servers.list("room") == {}
        await servers.put("room", "one", "1")
        await servers.put("room", "two", "2")
        assert await servers.get("room", "one") == "1"
        assert await servers.list("room") == {"one": "1", "two": "2"}
        await servers.delete("room", "one")
        assert await servers.list("room") == {"two": "2"}
        await servers.set_order("Orders", {"broker-a": 4, "broker-b": 2})
        assert await servers.get("ORDER_TOPIC_CONFIG", "Orders") == "broker-a:4;broker-b:2"
        await servers.set_order("Orders", None)
        assert await servers.get("ORDER_TOPIC_CONFIG", "Orders") is None
        for wrong in ({}, {"a:b": 1}, {"a": 0}, {"a": "1"}):
            with pytest.raises(ConfigError, match="queues must map names of brokers to numbers of 1 or more"):
                await servers.set_order("Orders", wrong)  # type: ignore[arg-type]
        for arguments in (("", "a"), ("a", ""), (None, "a")):
            with pytest.raises(ConfigError, match="must be non-empty text"):
                await servers.get(*arguments)  # type: ignore[arg-type]


async def test_settings_of_name_servers(autojump_clock: MockClock) -> None:
    async with scene(name_servers=2) as s:
        await s.admin.name_servers.update_config({"orderMessageEnable": True})
        found = await s.admin.name_servers.config()
        assert [each.server for each in found] == list(s.admin.name_servers.addresses)
        assert {each["orderMessageEnable"] for each in found} == {"true"}
        await s.world.cluster.stop_name_server(1)
        with pytest.raises(BrokersFailedError, match="1 of 2 servers") as caught:
            await s.admin.name_servers.update_config({"orderMessageEnable": False})
        assert caught.value.done == s.admin.name_servers.addresses[:1]
        with pytest.raises(NameServerUnreachableError):
            await s.admin.name_servers.put("room", "one", "1")
        assert await s.admin.name_servers.get("room", "one") == "1"
