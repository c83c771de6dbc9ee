"""The rule of retries where the first try goes over a data connection: what the broker refuses, cuts, or sends away."""

from __future__ import annotations

import asyncio

import pytest

import rocketpy.aio
import rocketpy.sync
from rocketpy import Message
from rocketpy.errors import (
    BrokerError,
    BrokerUnreachableError,
    ConnectionLostError,
    MessageIllegalError,
    SystemBusyError,
    unsent,
)
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim import BlockingLocalCluster
from tests.aio.running import run

PATIENCE = 20.0


@pytest.fixture(scope="module")
def cluster():
    with BlockingLocalCluster() as running:
        yield running


class Blocking:
    """Calls of a blocking producer whose data connection stands."""

    def __init__(self, **settings):
        self._settings = settings

    def try_out(self, script):
        with rocketpy.sync.Producer("tried", **self._settings) as producer:
            while not producer._inner.client.data_links.all():
                producer.send(Message("Tried", b"warm"))
            return script(producer, lambda call, *args: call(*args))


class Soon(Blocking):
    """The same by `send_soon`."""

    def try_out(self, script):
        def soon(producer, call):
            return script(producer, lambda _, message: producer.send_soon(message).result(PATIENCE))

        return super().try_out(soon)


class Asyncio(Blocking):
    """Calls of an asyncio producer whose data connection stands."""

    def try_out(self, script):
        async def main():
            async with rocketpy.aio.Producer("tried", **self._settings) as producer:
                while not producer._inner.client.data_links.all():
                    await producer.send(Message("Tried", b"warm"))
                loop = asyncio.get_running_loop()

                def call(function, *args):
                    return asyncio.run_coroutine_threadsafe(function(*args), loop).result(PATIENCE)

                return await loop.run_in_executor(None, script, producer, call)

        return run(main)


@pytest.fixture(params=[Blocking, Soon, Asyncio], ids=["blocking", "send_soon", "asyncio"])
def surface(request, cluster):
    return request.param(namesrv=cluster.name_server_addresses)


def links(producer):
    return producer._inner.client.data_links.all()


@pytest.mark.parametrize("key", [None, "k"], ids=["plain", "keyed"])
def test_a_busy_broker_is_tried_again(surface, cluster, key):
    def script(producer, call):
        [link] = links(producer)
        before = link.uses
        cluster.refuse_sends(1, code=ResponseCode.SYSTEM_BUSY)
        assert call(producer.send, Message("Tried", b"x", sharding_key=key)).queue_offset >= 0
        assert link.uses == before + 1  # the first try was its own, the second one the portal's

    surface.try_out(script)


def test_a_broker_that_stays_busy_is_told_in_the_end(surface, cluster):
    def script(producer, call):
        cluster.refuse_sends(3, code=ResponseCode.SYSTEM_BUSY)
        with pytest.raises(Exception, match="3 attempts") as caught:
            call(producer.send, Message("Tried", b"x"))
        assert [type(attempt.error) for attempt in caught.value.attempts] == [SystemBusyError] * 3

    surface.try_out(script)


def test_what_is_refused_for_good_is_not_tried_again(surface, cluster):
    def script(producer, call):
        cluster.refuse_sends(1, code=ResponseCode.MESSAGE_ILLEGAL)
        with pytest.raises(MessageIllegalError):
            call(producer.send, Message("Tried", b"x"))
        assert call(producer.send, Message("Tried", b"y")).queue_offset >= 0

    surface.try_out(script)


def test_a_broker_that_sends_us_away_gets_the_message_over_another_connection(surface, cluster):
    def script(producer, call):
        [link] = links(producer)
        cluster.refuse_sends(1, code=ResponseCode.GO_AWAY)
        assert call(producer.send, Message("Tried", b"x")).queue_offset >= 0
        assert link.retired
        assert call(producer.send, Message("Tried", b"y")).queue_offset >= 0

    surface.try_out(script)


NO_RETRIES = {"retry_times_when_send_failed": 0, "retry_times_when_send_async_failed": 0}


@pytest.mark.parametrize("kind", [Blocking, Soon, Asyncio])
def test_a_broker_that_sends_every_open_connection_away_gets_the_message_over_a_new_one(cluster, kind):
    def script(producer, call):
        pool = producer._inner.client.pool
        dials = pool.statistics().dials
        cluster.refuse_sends(2, code=ResponseCode.GO_AWAY)  # once over the data connection, once over that of the pool
        assert call(producer.send, Message("Tried", b"x")).queue_offset >= 0
        assert pool.statistics().dials == dials + 1

    kind(namesrv=cluster.name_server_addresses, **NO_RETRIES).try_out(script)


@pytest.mark.parametrize("kind", [Blocking, Soon, Asyncio])
def test_a_broker_that_sends_a_new_connection_away_too_has_refused_the_message(cluster, kind):
    def script(producer, call):
        cluster.refuse_sends(3, code=ResponseCode.GO_AWAY)
        with pytest.raises(BrokerError, match="GO_AWAY"):
            call(producer.send, Message("Tried", b"x"))
        assert call(producer.send, Message("Tried", b"y")).queue_offset >= 0

    kind(namesrv=cluster.name_server_addresses, **NO_RETRIES).try_out(script)


@pytest.mark.slow
@pytest.mark.waits("what was gone is dialled again after a while, in real time")
def test_a_cut_connection_hurts_no_plain_message_and_is_dialled_again(surface, cluster):
    def script(producer, call):
        [link] = links(producer)
        for _ in range(3):
            cluster.cut_connections()
            assert call(producer.send, Message("Tried", b"x")).queue_offset >= 0
        assert link.error is not None
        for _ in range(2_000):
            call(producer.send, Message("Tried", b"x"))
            if links(producer) and links(producer)[0] is not link and links(producer)[0].is_usable:
                break
        else:
            pytest.fail("no other data connection was made")

    surface.try_out(script)


def test_a_keyed_message_whose_outcome_is_unknown_is_not_sent_again(surface, monkeypatch):
    def script(producer, call):
        monkeypatch.setattr(producer._inner.outside.core, "finish", lost)
        with pytest.raises(ConnectionLostError, match="planted"):
            call(producer.send, Message("Tried", b"x", sharding_key="k"))
        monkeypatch.undo()
        assert call(producer.send, Message("Tried", b"y", sharding_key="k")).queue_offset >= 0

    def lost(attempt, answer):
        raise ConnectionLostError("planted: the answer was lost", address=attempt.address)

    surface.try_out(script)


def gone():
    return unsent(ConnectionLostError("as told", address="a:1"))


@pytest.mark.parametrize("kind", [Blocking, Asyncio])
@pytest.mark.parametrize("place", ["target", "write_oneway"])
def test_a_oneway_message_of_which_nothing_was_written_is_tried_again(cluster, monkeypatch, kind, place):
    def script(producer, call):
        core, told = producer._inner.outside.core, []

        def fail_once(real):
            def failing(self, *arguments):
                if not told:
                    told.append(place)
                    raise gone() if place == "write_oneway" else BrokerUnreachableError("as told", topic="Tried")
                return real(self, *arguments)

            return failing

        before = len(cluster.messages("Tried"))
        monkeypatch.setattr(type(core), place, fail_once(getattr(type(core), place)))
        call(producer.send_oneway, Message("Tried", b"x"))
        assert told == [place]
        cluster.wait_messages("Tried", before + 1)

    kind(namesrv=cluster.name_server_addresses).try_out(script)


@pytest.mark.parametrize("kind", [Blocking, Asyncio])
def test_a_oneway_message_that_a_hook_forbids_is_not_tried_again(cluster, kind):
    asked = []

    def check(context):
        asked.append(context)
        if context.oneway:
            raise gone()

    def script(producer, call):
        before = len(asked)
        with pytest.raises(ConnectionLostError, match="as told"):
            call(producer.send_oneway, Message("Tried", b"x"))
        assert len(asked) == before + 1

    kind(namesrv=cluster.name_server_addresses, check_forbidden=check).try_out(script)
