"""A client with keys, and a whole cluster: every request that leaves it is signed, and everything works as without."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from rocketpy.config import ClientConfig, ProducerConfig
from rocketpy.errors import ConfigError
from rocketpy.message import Message
from rocketpy.producer import Producer
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.results import SendResult
from rocketpy.wire.codes import RequestCode, SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.serialize import decode_command
from tests.security.signed import is_signed
from tests.system.consuming import Recorder, World, world

KEYS = {"access_key": "ali", "secret_key": "sesame", "security_token": "token-1"}


class Tap(trio.abc.Stream):
    """A stream that keeps what is sent through it."""

    def __init__(self, stream: trio.abc.Stream, sent: bytearray) -> None:
        self._stream = stream
        self._sent = sent

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._sent += data
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()


class TappedNetwork:
    """The network of a cluster, for one client."""

    def __init__(self, network: MemoryNetwork) -> None:
        self._network = network
        self._sent: list[bytearray] = []

    async def open_stream(self, host: str, port: int) -> trio.abc.Stream:
        self._sent.append(bytearray())
        return Tap(await self._network.open_stream(host, port), self._sent[-1])

    async def listen(self, host: str, port: int) -> list[Any]:
        return list(await self._network.listen(host, port))

    def local_ip(self) -> str:
        return self._network.local_ip()

    def requests(self) -> list[RemotingCommand]:
        """Every whole request that was sent."""
        found = []
        for data in self._sent:
            decoder = FrameDecoder()
            decoder.receive_data(bytes(data))
            found += [decode_command(frame) for frame in decoder.frames()]
        return [command for command in found if not command.is_response]


async def traffic(w: World, network: TappedNetwork, serialize_type: SerializeType, **keys: str) -> None:
    """Something of everything that a client does by itself."""
    common = {"namesrv": w.cluster.name_server_addresses, "network": network, "serialize_type": serialize_type, **keys}
    got = Recorder()
    consumer = w.consumer(**{key: value for key, value in common.items() if key != "namesrv"})
    consumer.subscribe("Orders", got)
    async with Producer("signed", **common) as producer, consumer:
        await producer.send(Message("Orders", b"one"))
        await producer.send_batch([Message("Orders", b"two"), Message("Orders", b"three")])
        await producer.send_oneway(Message("Orders", b"four"))
        ended: list[object] = []
        producer.outside.start_send(producer.outside.prepare(Message("Orders", b"five", keys="k")), ended.append)
        await got.wait_count(5)
        assert isinstance(ended[0], SendResult)
        await trio.sleep(70)  # heartbeats, routes, offsets
    assert set(got.bodies) == {b"one", b"two", b"three", b"four", b"five"}


@pytest.mark.parametrize("serialize_type", SerializeType)
async def test_every_request_of_a_client_with_keys_is_signed_and_accepted(
    serialize_type: SerializeType, autojump_clock: MockClock
) -> None:
    async with world() as w:
        network = TappedNetwork(w.cluster.network)
        await traffic(w, network, serialize_type, **KEYS)
    requests = network.requests()
    for command in requests:
        assert command.ext_fields["AccessKey"] == "ali", command
        assert command.ext_fields["SecurityToken"] == "token-1", command
        assert is_signed(command.ext_fields, command.body, "sesame"), command
    assert {command.code for command in requests} >= {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.HEART_BEAT,
        RequestCode.UNREGISTER_CLIENT,
        RequestCode.PULL_MESSAGE,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    }
    assert all(b"sesame" not in command.body for command in requests)


async def test_without_keys_nothing_is_signed(autojump_clock: MockClock) -> None:
    async with world() as w:
        network = TappedNetwork(w.cluster.network)
        await traffic(w, network, SerializeType.JSON)
    assert network.requests()
    assert not any({"AccessKey", "Signature"} & command.ext_fields.keys() for command in network.requests())


class Note:
    """A hook that puts a field of its own into requests."""

    def before_request(self, address: str, command: RemotingCommand) -> None:
        command.ext_fields["note"] = address

    def after_answer(self, address: str, command: RemotingCommand, answer: RemotingCommand | None) -> None:
        """Nothing to note."""


async def test_signing_covers_what_other_hooks_put_in(autojump_clock: MockClock) -> None:
    from rocketpy.client.instance import MQClientInstance

    async with world() as w:
        network = TappedNetwork(w.cluster.network)
        namesrv = w.cluster.name_server_addresses
        async with MQClientInstance(namesrv=namesrv, network=network, hooks=[Note()], **KEYS) as client:
            async with Producer("signed", client=client) as producer:
                await producer.send(Message("Orders", b"one"))
    for command in network.requests():
        assert command.ext_fields["note"]
        assert is_signed(command.ext_fields, command.body, "sesame")


# --- settings ------------------------------------------------------------------------------------------


def test_threat_secrets_of_settings_are_not_shown() -> None:
    config = ProducerConfig(group="g", namesrv="a:1", **KEYS)
    assert "sesame" not in repr(config)
    assert "token-1" not in repr(config)
    assert config.credentials is not None
    assert attrs.asdict(config.credentials) == KEYS
    assert ClientConfig.of(config).credentials == config.credentials


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"access_key": "a"}, "access_key needs the secret_key"),
        ({"secret_key": "s"}, "secret_key needs the access_key"),
        ({"security_token": "s"}, "security_token needs the access_key"),
        ({"access_key": "", "secret_key": "s"}, "access_key must be non-empty text"),
        ({"access_key": "a", "secret_key": 7}, "secret_key must be non-empty text$"),
    ],
)
def test_keys_come_in_pairs(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ClientConfig(namesrv="a:1", **fields)
