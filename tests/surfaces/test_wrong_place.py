"""A class of one surface in a loop of another: refused with the name of the right one, and nothing is left behind."""

from __future__ import annotations

import asyncio
import functools

import pytest
import trio

import rocketpy
import rocketpy.aio
import rocketpy.sync
from rocketpy import ClientClosedError, ConfigError
from rocketpy_broker_sim import AsyncioLocalCluster, BlockingLocalCluster, LocalCluster
from tests.surfaces.surface import call


def of_every_kind(module):
    return (
        module.MQClientInstance(namesrv="127.0.0.1:9"),
        module.Producer("pg", namesrv="127.0.0.1:9"),
        module.PushConsumer("cg", namesrv="127.0.0.1:9"),
    )


def test_classes_of_trio_say_in_asyncio_where_the_right_ones_are():
    async def main():
        for thing in of_every_kind(rocketpy):
            with pytest.raises(ConfigError, match=r"no trio loop runs here: .*rocketpy\.aio in asyncio"):
                await thing.__aenter__()
            assert "not started" in repr(thing)

    asyncio.run(main())


def test_classes_of_asyncio_say_in_trio_where_the_right_ones_are():
    async def main():
        for thing in of_every_kind(rocketpy.aio):
            with pytest.raises(ConfigError, match=r"no asyncio loop runs here: .*rocketpy in trio"):
                await thing.__aenter__()

    trio.run(main)


def trio_run(coroutine):
    async def main():
        await coroutine

    trio.run(main)


@pytest.mark.parametrize("module", [rocketpy, rocketpy.aio])
def test_plain_with_says_that_async_with_is_meant(module):
    for thing in of_every_kind(module):
        name = type(thing).__name__
        with pytest.raises(TypeError, match=rf"^{name} is entered with `async with`.* use rocketpy\.sync\.{name}$"):
            with thing:
                raise AssertionError("nobody gets here")
        assert "not started" in repr(thing)


@pytest.mark.parametrize("run", [asyncio.run, trio_run])
def test_async_with_says_that_plain_with_is_meant(run):
    async def main():
        for thing in of_every_kind(rocketpy.sync):
            name = type(thing).__name__
            said = rf"^rocketpy\.sync\.{name} is entered with `with`; .* rocketpy\.aio\.{name} or rocketpy\.{name} "
            with pytest.raises(TypeError, match=said):
                async with thing:
                    raise AssertionError("nobody gets here")
            assert "not started" in repr(thing)
            assert not hasattr(thing, "__aenter__"), "what looks for it takes the other one"

    run(main())


@pytest.mark.parametrize("kind", [LocalCluster, AsyncioLocalCluster])
def test_plain_with_of_an_async_cluster_names_the_blocking_one(kind):
    with pytest.raises(TypeError, match=rf"^{kind.__name__} is entered with `async with`.* use BlockingLocalCluster$"):
        with kind():
            raise AssertionError("nobody gets here")


@pytest.mark.parametrize("run", [asyncio.run, trio_run])
def test_async_with_of_a_blocking_cluster_names_the_others(run):
    async def main():
        async with BlockingLocalCluster():
            raise AssertionError("nobody gets here")

    with pytest.raises(TypeError, match="use LocalCluster on trio, AsyncioLocalCluster on asyncio"):
        run(main())


def test_start_on_trio_names_what_there_is():
    for thing in of_every_kind(rocketpy):
        name = type(thing).__name__
        assert not hasattr(thing, "start")
        with pytest.raises(AttributeError, match=r"no attribute 'start': .*`await nursery.start\(it.run\)`") as error:
            thing.start()
        assert f"rocketpy.aio.{name} and rocketpy.sync.{name}" in str(error.value)
        with pytest.raises(AttributeError, match=rf"close\(\) is a method of rocketpy\.sync\.{name}$"):
            thing.close()
        with pytest.raises(AttributeError, match=r"no attribute 'sent'$"):
            thing.sent()


ROLES = ["Producer", "TransactionProducer", "PushConsumer", "LitePullConsumer", "PullConsumer", "Admin"]


@pytest.mark.parametrize(
    ("module", "other"), [(rocketpy.aio, rocketpy.sync), (rocketpy.sync, rocketpy.aio)], ids=["asyncio", "blocking"]
)
@pytest.mark.parametrize("role", ROLES)
def test_a_client_of_another_surface_is_refused_with_the_name_of_the_right_one(module, other, role):
    client, right = other.MQClientInstance(namesrv="127.0.0.1:9"), module.MQClientInstance(namesrv="127.0.0.1:9")
    made = functools.partial(getattr(module, role), *(() if role == "Admin" else ("group",)))
    if role == "TransactionProducer":
        made = functools.partial(made, checker=print)
    said = rf"^client must be a {module.__name__}\.MQClientInstance, not one of {other.__name__}: make one "
    with pytest.raises(ConfigError, match=said):
        made(client=client)
    made(client=right)


def test_a_producer_of_one_asyncio_loop_refuses_the_client_of_another_one(namesrv, topic):
    async def share(client):
        producer = rocketpy.aio.Producer("pg", client=client)
        with pytest.raises(ConfigError, match=r"^client .* belongs to the event loop in which it was entered"):
            await producer.start()
        return producer

    async def main():
        async with rocketpy.aio.MQClientInstance(namesrv=namesrv) as client:
            refused = await asyncio.to_thread(asyncio.run, share(client))
            async with refused as producer:  # here it is in the right loop
                sent = await producer.send(rocketpy.Message(topic, b"hello"))
                assert sent.status is rocketpy.SendStatus.SEND_OK
                admin = producer.admin()
                with pytest.raises(ConfigError, match="producer pg belongs to the event loop in which it was entered"):
                    await asyncio.to_thread(asyncio.run, admin.start())

    asyncio.run(main())


def test_a_producer_of_one_trio_loop_refuses_the_sends_of_another_one(namesrv, topic):
    message = rocketpy.Message(topic, b"hello")

    async def main():
        async with rocketpy.Producer("pg", namesrv=namesrv) as producer:
            for send, what in ((producer.send, message), (producer.send_oneway, message), (producer.queues, topic)):
                with pytest.raises(ConfigError, match="belongs to the trio loop in which it was entered"):
                    await trio.to_thread.run_sync(trio.run, send, what)
            assert (await producer.send(message)).status is rocketpy.SendStatus.SEND_OK

    trio.run(main)


REMEDIES = {
    "trio": r"use it inside `async with`",
    "blocking": r"use it inside `with`, or call start\(\) first",
    "asyncio": r"use it inside `async with`, or await start\(\) first",
}


@pytest.mark.parametrize("way", ["send", "send_oneway", "request", "send_soon"])
def test_what_was_not_started_says_how_this_surface_starts_it(surface, way):
    async def main():
        producer = surface.module.Producer("pg", namesrv="127.0.0.1:9")
        send = getattr(producer, way, producer.send)
        with pytest.raises(ClientClosedError, match=f"not started: {REMEDIES[surface.name]}$"):
            await call(send(rocketpy.Message("T", b"x")))

    surface.run(main)
