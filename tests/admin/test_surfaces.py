"""The parts of Admin are the same on all three surfaces, and an Admin shares the client of what hands it out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

import rocketpy
import rocketpy.admin
import rocketpy.aio.admin
import rocketpy.sync.admin
from rocketpy import ClientClosedError, ConfigError, Message
from tests.rules import listed
from tests.surfaces.conftest import cluster, namesrv, surface, topic
from tests.surfaces.surface import call, entered

__all__ = ["cluster", "namesrv", "surface", "topic"]

PARTS = ("Topics", "Groups", "Offsets", "Messages", "Consumers", "Producers", "Brokers", "NameServers")
FACADES = {"blocking": rocketpy.sync.admin, "asyncio": rocketpy.aio.admin}


def public(kind: type) -> dict[str, object]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def other(surface: str, part: str) -> Iterator[str]:
    """What of a part differs from the trio surface."""
    trio, there = public(getattr(rocketpy.admin, part)), public(getattr(FACADES[surface], part))
    yield from (f"{surface} {part} has not {name}" for name in trio.keys() - there.keys())
    yield from (f"{surface} {part}.{name} is not on trio" for name in there.keys() - trio.keys())
    for name in sorted(trio.keys() & there.keys()):
        if isinstance(trio[name], property):
            if not isinstance(there[name], property):
                yield f"{surface} {part}.{name} is no property"
            continue
        if inspect.signature(trio[name]) != inspect.signature(there[name]):  # type: ignore[arg-type]
            yield f"{surface} {part}.{name} has other parameters"
        if inspect.getdoc(trio[name]) != inspect.getdoc(there[name]) or not inspect.getdoc(trio[name]):
            yield f"{surface} {part}.{name} has another docstring"
        if inspect.iscoroutinefunction(there[name]) != (surface == "asyncio"):
            yield f"{surface} {part}.{name} is awaited wrongly"


def test_the_parts_have_the_same_calls_on_every_surface() -> None:
    assert sum(len(public(getattr(rocketpy.admin, part))) for part in PARTS) >= 50
    listed((each for surface in FACADES for part in PARTS for each in other(surface, part)), "wrap it in both facades")


def test_calls_say_what_they_raise() -> None:
    silent = [
        f"{part}.{name}"
        for part in PARTS
        for name, found in public(getattr(rocketpy.admin, part)).items()
        if not isinstance(found, property) and "Raises:" not in (inspect.getdoc(found) or "")
    ]
    assert silent == ["Brokers.delete_expired_files", "Brokers.delete_expired_queues", "Brokers.delete_unused_queues"]


@pytest.mark.waits("waits for threads and loops of other kinds")
def test_an_admin_of_its_own(surface, namesrv, topic):
    async def main():
        admin = surface.module.Admin(namesrv=namesrv)
        with pytest.raises(ClientClosedError):
            await call(admin.topics.list())
        async with entered(admin):
            [made] = await call(admin.topics.create(topic, queues=2))
            assert (made.topic, made.write_queues) == (topic, 2)
            assert topic in await call(admin.topics.list())
            assert admin.name_servers.addresses == (namesrv,)
            assert repr(admin) == "<Admin open>"
            assert admin.config.namesrv == (namesrv,)
        with pytest.raises(ClientClosedError):
            await call(admin.topics.list())

    surface.run(main)


@pytest.mark.waits("waits for threads and loops of other kinds")
def test_a_producer_or_consumer_hands_one_out(surface, namesrv, topic, cluster):
    cluster.create_topic(topic, queues=1)
    module = surface.module

    async def main():
        producer = module.Producer("p", namesrv=namesrv)
        others = [module.PushConsumer("c", namesrv=namesrv), module.LitePullConsumer("l", namesrv=namesrv)]
        others += [module.PullConsumer("q", namesrv=namesrv)]
        with pytest.raises(ClientClosedError):
            async with entered(producer.admin()):
                raise AssertionError("its client is not open")
        async with entered(producer):
            sent = await call(producer.send(Message(topic, b"one")))
            async with entered(producer.admin()) as admin:
                assert (await call(admin.messages.view(sent.offset_message_id))).body == b"one"
                assert admin.config is not None
            await call(producer.send(Message(topic, b"two")))  # its client is still open
        for other in others:
            async with entered(other), entered(other.admin()) as admin:
                assert topic in await call(admin.topics.list())

    surface.run(main)


@pytest.mark.waits("waits for threads and loops of other kinds")
def test_a_shared_client(surface, namesrv):
    async def main():
        client = surface.module.MQClientInstance(namesrv=namesrv)
        with pytest.raises(ConfigError, match="leave out request_timeout, or leave out the client"):
            surface.module.Admin(client=client, request_timeout=1)
        with pytest.raises(ConfigError, match="leave out the config, or leave out the client"):
            surface.module.Admin(rocketpy.ClientConfig(namesrv=namesrv), client=client)
        with pytest.raises(ConfigError, match="must be a rocketpy"):
            surface.module.Admin(client="client")
        async with entered(client), entered(surface.module.Admin(client=client)) as admin:
            assert await call(admin.brokers.list())
        with pytest.raises(ClientClosedError):
            await call(admin.brokers.list())

    surface.run(main)
