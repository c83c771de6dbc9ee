"""What users see when brokers refuse heartbeats; in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.instance import MQClientInstance
from rocketpy.consumer import LitePullConsumer
from rocketpy.consumer.push import PushConsumer
from rocketpy.errors import InvalidParameterError, RequestTimeoutError, RocketMQError, SystemBusyError
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.remoting.connection import Connection
from rocketpy.wire.bodies.heartbeat import HeartbeatData
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from tests.consumer.brokers import PullBroker, World, world
from tests.system.consuming import wait_until

INVALID, BUSY = ResponseCode.INVALID_PARAMETER, ResponseCode.SYSTEM_BUSY
KINDS = pytest.mark.parametrize("kind", ["push", "lite"])


def nothing(message: MessageExt) -> None:
    pass


def consumer_of(w: World, kind: str, group: str = "billing", **settings: object) -> PushConsumer | LitePullConsumer:
    if kind == "lite":
        lite = w.lite(group, **settings)
        lite.subscribe("Orders")
        return lite
    push = w.consumer(group, **settings)
    push.subscribe("Orders", nothing)
    return push


def refuse(broker: PullBroker, code: int, groups: Callable[[set[str]], bool] = bool) -> None:
    """Have a broker refuse heartbeats as a whole, all or those that name such consumer groups."""

    def answer(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        names = {each.group_name for each in HeartbeatData.decode(request.body).consumer_data_set}
        if groups(names):
            return request.answer(code, f"{broker.name} is unwilling")
        return broker.heartbeat(connection, request)

    broker.on(RequestCode.HEART_BEAT, answer)


def accept(broker: PullBroker) -> None:
    broker.on(RequestCode.HEART_BEAT, broker.heartbeat)


def about(errors: Mapping[str, RocketMQError]) -> dict[str, tuple[type, str]]:
    return {topic: (type(error), getattr(error, "remark", "")) for topic, error in errors.items()}


@KINDS
async def test_a_start_that_all_brokers_refuse_raises_what_they_say(autojump_clock: MockClock, kind: str) -> None:
    async with world("broker-a", "broker-b") as w:
        del w.name_server.routes["%RETRY%billing"]  # a broker makes it after a heartbeat
        for broker in w.brokers:
            refuse(broker, INVALID)
        consumer = consumer_of(w, kind)
        with pytest.raises(InvalidParameterError, match=r"a heartbeat refused by .* code 29: broker-a is"):
            await consumer.__aenter__()
        for broker in w.brokers:
            accept(broker)
        w.set_route("%RETRY%billing")
        async with consumer:  # the same may start once they are willing
            assert await consumer.wait_assigned(5)
            assert consumer.status().errors == {}


@KINDS
@pytest.mark.parametrize("other", ["willing", "away", "busy"])
async def test_a_start_goes_on_while_one_broker_may_still_accept_the_group(
    autojump_clock: MockClock, kind: str, other: str
) -> None:
    async with world("broker-a", "broker-b") as w:
        a, b = w.brokers
        refuse(a, INVALID)
        if other == "busy":
            refuse(b, BUSY)
        b.hangs = other == "away"
        consumer = consumer_of(w, kind, start_timeout=2.0)
        async with consumer:
            await trio.sleep(1)
            assert about(consumer.status().errors) == {"Orders": (InvalidParameterError, "broker-a is unwilling")}
            accept(a)
            accept(b)
            b.hangs = False
            await wait_until(lambda: consumer.status().errors == {}, within=10)


@KINDS
async def test_what_a_busy_broker_says_is_in_errors_and_in_why_there_is_no_queue(
    autojump_clock: MockClock, kind: str
) -> None:
    async with world() as w:
        w.broker.members = ["another"]
        refuse(w.broker, BUSY)
        del w.name_server.routes["%RETRY%billing"]
        consumer = consumer_of(w, kind)
        async with consumer:
            with pytest.raises(RequestTimeoutError, match=r"code 2: broker-a is unwilling$"):
                await consumer.wait_assigned(5)
            assert about(consumer.status().errors) == {"Orders": (SystemBusyError, "broker-a is unwilling")}
            accept(w.broker)
            with pytest.raises(RequestTimeoutError, match="Orders: the brokers do not know yet that this consumer is"):
                await consumer.wait_assigned(40)
            w.set_route("%RETRY%billing")
            w.broker.members = [consumer.status().client_id, "!"]
            with pytest.raises(RequestTimeoutError, match="other members have all queues"):
                await consumer.wait_assigned(40)


@KINDS
async def test_a_refusal_while_it_runs_is_in_errors_until_the_broker_is_willing(
    autojump_clock: MockClock, kind: str
) -> None:
    async with world() as w:
        consumer = consumer_of(w, kind)
        async with consumer:
            await consumer.wait_assigned(5)
            refuse(w.broker, INVALID)
            await wait_until(lambda: consumer.status().errors, within=31)
            assert about(consumer.status().errors) == {"Orders": (InvalidParameterError, "broker-a is unwilling")}
            accept(w.broker)
            await wait_until(lambda: consumer.status().errors == {}, within=4)


async def test_one_group_that_is_refused_costs_a_shared_client_no_other(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w, MQClientInstance(namesrv=w.name_server.address, network=w.network) as client:
        refuse(w.broker, INVALID, lambda groups: "bad" in groups)
        w.set_route("%RETRY%good")
        good = PushConsumer("good", client=client)
        good.subscribe("Orders", nothing)
        bad = LitePullConsumer("bad", client=client)
        async with good, bad:
            await good.wait_assigned(5)
            bad.subscribe("Orders")
            await wait_until(lambda: bad.status().errors)
            w.broker.heartbeats.clear()
            await trio.sleep(300)
            beats = [[each.group_name for each in beat.consumer_data_set] for beat in w.broker.heartbeats]
            assert beats == [["good"]] * len(beats)
            assert 10 <= len(beats) <= 15  # at the interval, not every three seconds
            assert good.status().errors == {}
            assert about(bad.status().errors) == {"Orders": (InvalidParameterError, "broker-a is unwilling")}
            assert caplog.text.count("refuses heartbeats for the group bad") == 1
        # A start is refused for the group itself only.
        again = PushConsumer("good", client=client)
        again.subscribe("Orders", nothing)
        worse = LitePullConsumer("bad", client=client)
        worse.subscribe("Orders")
        async with again:
            with pytest.raises(InvalidParameterError, match="broker-a is unwilling"):
                await worse.__aenter__()
            # What was said of it does not count for its next start: the broker is just away then.
            w.broker.hangs = True
            next_one = LitePullConsumer("bad", client=client, start_timeout=2.0)
            next_one.subscribe("Orders")
            async with next_one:
                assert not isinstance(next_one.status().errors.get("Orders"), InvalidParameterError)
                accept(w.broker)
                w.broker.members, w.broker.hangs = [], False
                with pytest.raises(RequestTimeoutError, match="Orders: the brokers do not know yet that this consumer"):
                    await next_one.wait_assigned(60)
                w.broker.members = [client.client_id]
                await next_one.wait_assigned(60)
                assert next_one.status().errors == {}


async def test_a_group_that_is_refused_for_now_is_told_of_again_soon(autojump_clock: MockClock) -> None:
    async with world() as w, MQClientInstance(namesrv=w.name_server.address, network=w.network) as client:
        for group in ("good", "busy"):
            w.set_route(f"%RETRY%{group}")
        refuse(w.broker, BUSY, lambda groups: "busy" in groups)
        good, busy = (PushConsumer(group, client=client) for group in ("good", "busy"))
        for each in (good, busy):
            each.subscribe("Orders", nothing)
        async with good, busy:
            await trio.sleep(60)
            assert about(busy.status().errors) == {"Orders": (SystemBusyError, "broker-a is unwilling")}
            assert good.status().errors == {}
            accept(w.broker)
            await wait_until(lambda: busy.status().errors == {}, within=4)


async def test_assigned_queues_need_no_heartbeat(autojump_clock: MockClock) -> None:
    async with world() as w:
        refuse(w.broker, INVALID)
        w.broker.store(3)
        consumer = w.lite()
        consumer.assign(await _queues(w))
        async with consumer:
            await consumer.seek_to_begin(consumer.assignment[0])
            assert len(await consumer.poll(timeout=5)) == 3
            assert consumer.status().errors == {}


async def _queues(w: World) -> list[MessageQueue]:
    async with w.lite("looks") as looks:
        return list(await looks.fetch_message_queues("Orders"))
