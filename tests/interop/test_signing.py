"""Our clients on a broker of Apache's that asks everybody who they are: who signs well is served, others are not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio

import rocketpy
from rocketpy import ConsumeFromWhere, Message, NoPermissionError, RocketMQError
from rocketpy.wire.catalogue.bodies.auth import UserInfo
from rocketpy.wire.catalogue.exchanges import body_codec
from rocketpy.wire.catalogue.headers.auth import CreateUserRequestHeader, GetUserRequestHeader, ListUsersRequestHeader
from rocketpy.wire.codes import RequestCode, SerializeType
from rocketpy.wire.command import RemotingCommand

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocketpy import MessageExt
    from tests.interop.apache import Apache, Cluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.one_line("5.3.3", "4.x has accounts instead, which test_signing_older tries"),
]

TOPIC = "Signed"
ROOT = {"access_key": "root-of-all", "secret_key": "s3same, öffne dich"}
_PROVIDERS = "org.apache.rocketmq.auth"


@pytest.fixture(scope="module")
def guarded(apache: Apache, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with users, of whom the first may do everything."""
    home: Path = tmp_path_factory.mktemp("auth")
    credentials = {"accessKey": ROOT["access_key"], "secretKey": ROOT["secret_key"]}
    overrides = {
        "authConfigPath": home,
        "authenticationEnabled": True,
        "authenticationProvider": f"{_PROVIDERS}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{_PROVIDERS}.authentication.provider.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": in_properties({"username": ROOT["access_key"], "password": ROOT["secret_key"]}),
        "innerClientAuthenticationCredentials": in_properties(credentials),
        "authorizationEnabled": True,
        "authorizationProvider": f"{_PROVIDERS}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{_PROVIDERS}.authorization.provider.LocalAuthorizationMetadataProvider",
    }
    with apache.cluster(overrides=overrides) as cluster:
        yield cluster


def in_properties(value: dict[str, str]) -> str:
    """JSON in a properties file, whose reader takes backslashes away."""
    return json.dumps(value).replace("\\", "\\\\")


@pytest.fixture
async def topic(guarded: Cluster) -> str:
    async with rocketpy.Producer("makers", namesrv=guarded.namesrv, **ROOT) as producer:
        await producer.create_topic(TOPIC, queues=2)
    return TOPIC


@pytest.mark.parametrize("serialize_type", SerializeType)
async def test_who_signs_is_served(guarded: Cluster, topic: str, serialize_type: SerializeType) -> None:
    settings: dict[str, Any] = {"namesrv": guarded.namesrv, "serialize_type": serialize_type, **ROOT}
    keys = f"ключ-{serialize_type.name}"
    bodies: list[bytes] = []
    complete = trio.Event()

    async def listen(message: MessageExt) -> None:
        if message.system_properties["KEYS"] == keys:
            bodies.append(message.body)
        if len(bodies) == 4:
            complete.set()

    consumer = rocketpy.PushConsumer(
        f"signed-{serialize_type.name}", consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, **settings
    )
    consumer.subscribe(topic, listen)
    async with rocketpy.Producer("signers", send_timeout=10, **settings) as producer, consumer:
        await producer.send(Message(topic, "Größe".encode(), keys=keys, properties={"emoji": "🚀"}))
        await producer.send_batch([Message(topic, b"two", keys=keys), Message(topic, b"three", keys=keys)])
        await producer.send(Message(topic, b"packed " * 2000, keys=keys))
        with trio.fail_after(30):
            await complete.wait()
    assert sorted(bodies) == sorted(["Größe".encode(), b"two", b"three", b"packed " * 2000])


@pytest.mark.parametrize(
    "keys",
    [{}, {**ROOT, "secret_key": "guessed"}, {"access_key": "nobody", "secret_key": "x"}],
    ids=["unsigned", "wrong secret", "unknown key"],
)
async def test_threat_who_does_not_is_refused(guarded: Cluster, topic: str, keys: dict[str, str]) -> None:
    async with rocketpy.Producer("strangers", namesrv=guarded.namesrv, send_timeout=10, **keys) as producer:
        with pytest.raises(RocketMQError) as caught:
            await producer.send(Message(topic, b"let me in"))
    refused = caught.value if isinstance(caught.value, NoPermissionError) else caught.value.__cause__
    assert isinstance(refused, NoPermissionError), caught.value


async def test_users_are_made_and_listed_with_our_declarations(guarded: Cluster, topic: str) -> None:
    async with rocketpy.Producer("managers", namesrv=guarded.namesrv, send_timeout=10, **ROOT) as producer:
        connection = await producer.client.pool.get(guarded.brokers[0].address, timeout=10)
        user = UserInfo(username="ali", password="alis-secret", user_type="Normal")
        header = CreateUserRequestHeader(username="ali").to_ext()
        command = RemotingCommand(RequestCode.AUTH_CREATE_USER, header, user.encode())
        assert (await connection.request(command, timeout=10)).code == 0

        command = RemotingCommand(RequestCode.AUTH_GET_USER, GetUserRequestHeader(username="ali").to_ext())
        answer = await connection.request(command, timeout=10)
        found = UserInfo.decode(answer.body)
        assert (found.username, found.user_type, found.user_status) == ("ali", "Normal", "enable")

        command = RemotingCommand(RequestCode.AUTH_LIST_USER, ListUsersRequestHeader(filter="").to_ext())
        codec = body_codec(RequestCode.AUTH_LIST_USER, answer=True)
        assert codec is not None
        listed = codec.decode((await connection.request(command, timeout=10)).body)
        assert {each.username for each in listed} == {"ali", ROOT["access_key"]}
