"""Consumer groups by the hand of an administrator: made, changed, deleted, listed, forbidden, kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from trio.testing import MockClock

from rocketpy.wire.bodies.groups import (
    CustomizedRetryPolicy,
    GroupForbidden,
    GroupRetryPolicy,
    SimpleSubscriptionData,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.lenient_json import write_json
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.processors.admin_group import delete_group, get_all_groups
from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
from rocketpy_broker_sim.serving import encoding
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client
from tests.broker_sim.broker.test_consumer_manage import commit


async def create(client: Client, group: SubscriptionGroupConfig) -> RemotingCommand:
    return await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.encode())


async def create_list(client: Client, *groups: SubscriptionGroupConfig) -> RemotingCommand:
    body = SubscriptionGroupList(group_config_list=list(groups))
    return await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body.encode())


async def look(client: Client, group: str) -> RemotingCommand:
    return await client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})


async def forbid(client: Client, topic: str, readable: bool | None, group: str = "g") -> GroupForbidden:
    fields = {"group": group, "topic": topic}
    if readable is not None:
        fields["readable"] = str(readable).lower()
    answer = await client.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, fields)
    assert answer.code == 0
    return GroupForbidden.decode(answer.body)


async def test_A4_a_group_is_made_changed_listed_and_survives_a_kill(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        group = SubscriptionGroupConfig(group_name="g", retry_max_times=5)
        assert (await create(client, group)).code == 0
        assert SubscriptionGroupConfig.decode((await look(client, "g")).body) == group
        version = broker.groups.data_version.counter
        assert (await create(client, group)).code == 0
        assert broker.groups.data_version.counter == version
        more = [SubscriptionGroupConfig(group_name=name, retry_queue_nums=2) for name in ("h", "i")]
        assert (await create_list(client, *more)).code == 0
        listed = SubscriptionGroupWrapper.decode((await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body)
        assert listed.subscription_group_table == dict(broker.groups.all())
        killed = storage.clone()
    async with broker_and_client(storage=killed) as (broker, _):
        assert broker.groups.get("g") == group
        assert broker.groups.get("i") == more[1]


async def test_A4_a_group_is_deleted_with_its_offsets_or_without(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        for group in ("g", "h", "i"):
            await client.heartbeat(group, "T")
            await commit(client, 1, group=group)
        code = RequestCode.DELETE_SUBSCRIPTIONGROUP
        assert (await client.ask(code, {"groupName": "g"})).code == 0
        assert (await client.ask(code, {"groupName": "h", "cleanOffset": "true"})).code == 0
        assert (await client.ask(code, {"groupName": "i", "removeOffset": "true"})).code == 0
        assert (await client.ask(code, {"groupName": "none"})).code == 0
        assert {"g", "h", "i"}.isdisjoint(broker.groups.all())
        assert broker.offsets.groups_of("T") == {"g"}
        assert (await commit(client, 1)).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_offsets_that_are_committed_while_a_group_is_deleted_go_with_it(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        await client.heartbeat("g", "T")
        await commit(client, 1)
        broker.counting.flows.note_get(("T", 0, "g"), 1, 1, 0.0)
        run_steps(broker.counting.flows.add_steps())
        fields = {"groupName": "g", "cleanOffset": "true"}
        request = RemotingCommand(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)
        connection: Any = SimpleNamespace(address="a:1", send_answer=lambda request, answer: None)
        steps = 0
        for _ in delete_group(broker._views.admin_group, connection, request):
            steps += 1
            broker.offsets.commit("g", "T", 0, steps)
        assert steps > 2
        assert broker.offsets.groups_of("T") == set()


async def test_A4_looking_at_an_unknown_group_makes_it_where_that_is_allowed(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        assert (await look(client, "g")).code == 0
        assert "g" in broker.groups
    async with broker_and_client(auto_create_subscription_group=False) as (_, client):
        assert (await look(client, "g")).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.parametrize(
    "group",
    [
        SubscriptionGroupConfig(group_name="../g"),
        SubscriptionGroupConfig(group_name="g", retry_queue_nums=-1),
        SubscriptionGroupConfig(group_name="g", retry_queue_nums=2**31 - 1),
        SubscriptionGroupConfig(group_name="g", attributes={"+x": "1"}),
    ],
)
async def test_A4_what_can_be_no_group_is_refused(autojump_clock: MockClock, group: SubscriptionGroupConfig) -> None:
    async with broker_and_client() as (broker, client):
        before = dict(broker.groups.all())
        assert (await create(client, group)).code == ResponseCode.INVALID_PARAMETER
        good = SubscriptionGroupConfig(group_name="good")
        assert (await create_list(client, good, group)).code == ResponseCode.INVALID_PARAMETER
        assert dict(broker.groups.all()) == before


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"{", b'{"groupConfigList":[{}]}'])
async def test_threat_F19_a_body_that_is_missing_or_broken_is_an_answer(autojump_clock: MockClock, body: bytes) -> None:
    async with broker_and_client() as (_, client):
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (await client.send()).code == 0


async def test_A4_a_group_is_forbidden_a_topic(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        await client.send()
        await client.heartbeat("g", "T")
        assert (await forbid(client, "T", None)).readable is True
        assert (await forbid(client, "T", False)).readable is False
        assert (await forbid(client, "T", None)) == GroupForbidden(group="g", topic="T", readable=False)
        assert (await client.pull(sys_flag=0)).code == ResponseCode.NO_PERMISSION
    async with broker_and_client(storage=storage) as (_, client):
        await client.heartbeat("g", "T")
        assert (await client.pull(sys_flag=0)).code == ResponseCode.NO_PERMISSION
        assert (await forbid(client, "T", True)).readable is True
        assert (await client.pull(sys_flag=0)).code == 0


@pytest.mark.parametrize(
    "group",
    [
        SubscriptionGroupConfig(group_name="g", subscription_data_set=[SimpleSubscriptionData()] * 20_000),
        SubscriptionGroupConfig(
            group_name="g",
            group_retry_policy=GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy(next=[0] * 20_000)),
        ),
    ],
)
async def test_a_group_with_too_many_elements_is_refused_without_being_written_out(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, group: SubscriptionGroupConfig
) -> None:
    body = SubscriptionGroupList(group_config_list=[group]).encode()
    written: list[SubscriptionGroupConfig] = []

    def encode(self: SubscriptionGroupConfig) -> bytes:
        written.append(self)
        return b""

    monkeypatch.setattr(SubscriptionGroupConfig, "encode", encode)
    async with broker_and_client() as (broker, client):
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=body)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "bytes or more" in (answer.remark or "")
        assert "g" not in broker.groups
        assert not written


async def test_the_log_names_a_few_of_many_new_groups(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_and_client() as (broker, client):
        with caplog.at_level("INFO"):
            many = [SubscriptionGroupConfig(group_name=f"many{number}") for number in range(500)]
            assert (await create_list(client, *many)).code == 0
        assert sum("many" in record.getMessage() for record in caplog.records) < 50
        assert "many499" in broker.groups


async def test_very_many_forbidden_topics_are_told_and_saved_in_steps(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbidden = {"g": {f"T{number}": 4 for number in range(20_000)}, "h": {"T": 4}}
    most, written = 0, 0

    def counting(value: object) -> str:
        nonlocal written
        text = write_json(value)
        written += text.count(":")
        return text

    async with broker_and_client() as (broker, client):
        broker.groups._forbidden.update(forbidden)
        monkeypatch.setattr(encoding, "write_json", counting)
        request = RemotingCommand(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        steps = get_all_groups(broker._views.admin_group, client.connection, request)
        answer = None
        while answer is None:
            written = 0
            try:
                next(steps)
            except StopIteration as stop:
                answer = stop.value
            most = max(most, written)
        assert most <= 1000
        assert SubscriptionGroupWrapper.decode(answer.body).forbidden_table == forbidden
        again = SubscriptionGroupTable(broker.config, MemoryStorage())
        again.decode(broker.groups.encode())
        assert again.forbidden() == forbidden
