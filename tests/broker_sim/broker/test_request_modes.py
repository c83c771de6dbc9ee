"""Groups pull topics here: having them do that is no error, and having them pop is one."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rocketpy.wire.bodies.groups import MessageRequestModeSerializeWrapper, SetMessageRequestModeRequestBody
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.enums import MessageRequestMode
from rocketpy_broker_sim.broker.tables.request_modes import MOST_MODES, RequestModes
from tests.broker_sim.broker.kit import Client, broker_and_client


async def set_mode(client: Client, topic: str, group: str, mode: MessageRequestMode) -> RemotingCommand:
    body = SetMessageRequestModeRequestBody(topic=topic, consumer_group=group, mode=mode)
    return await client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body.encode())


async def modes(client: Client) -> dict[str, dict[str, MessageRequestMode]]:
    answer = await client.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    found = MessageRequestModeSerializeWrapper.decode(answer.body).message_request_mode_map
    return {topic: {group: each.mode for group, each in groups.items()} for topic, groups in found.items()}


async def test_A4_a_group_pulls_and_cannot_pop(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        await client.send()
        assert await modes(client) == {}
        assert (await set_mode(client, "T", "g", MessageRequestMode.PULL)).code == 0
        answer = await set_mode(client, "T", "g", MessageRequestMode.POP)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert answer.remark == "the group g can only pull T: this broker has no consumption by POP"
        assert await modes(client) == {"T": {"g": MessageRequestMode.PULL}}
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
        assert await modes(client) == {}


def test_modes_are_bounded() -> None:
    table = RequestModes()
    for number in range(MOST_MODES + 2):
        table.put("T", f"g{number}", SetMessageRequestModeRequestBody())
    table.put("T", "g2", SetMessageRequestModeRequestBody())
    found = table.by_topic(lambda _topic, group: group != "g3")["T"]
    assert len(found) == MOST_MODES - 1
    assert not {"g0", "g1", "g3"} & found.keys()
    assert list(found)[-1] == "g2"


@pytest.mark.parametrize(
    ("topic", "group", "code"),
    [
        ("nowhere", "g", ResponseCode.TOPIC_NOT_EXIST),
        ("T", "unknown", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ("%RETRY%g", "g", ResponseCode.NO_PERMISSION),
        ("a b", "g", ResponseCode.INVALID_PARAMETER),
        ("T", "", ResponseCode.INVALID_PARAMETER),
    ],
)
async def test_A4_a_mode_of_what_is_not_there_is_refused(
    autojump_clock: MockClock, topic: str, group: str, code: ResponseCode
) -> None:
    async with broker_and_client(auto_create_subscription_group=False) as (_, client):
        await client.send()
        assert (await set_mode(client, topic, group, MessageRequestMode.PULL)).code == code
        for body in (b"", b"{{{", b"[]", b'{"mode":"NONE"}'):
            assert (await client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)).code != 0
