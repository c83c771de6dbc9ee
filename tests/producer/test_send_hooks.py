"""Hooks around each try of a send: what they see, in which order, and what becomes of what they raise."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import pytest
import trio

from rocketpy.client import send_hooks
from rocketpy.errors import (
    BrokerError,
    ConfigError,
    ConnectError,
    ConnectionLostError,
    RequestTimeoutError,
    SystemBusyError,
)
from rocketpy.logs import Seldom
from rocketpy.message import Message, MessageQueue
from rocketpy.producer import Producer
from rocketpy.results import SendResult, SendStatus
from rocketpy.wire.codes import ResponseCode
from tests.producer.brokers import SendBroker


class Hooks:
    """Notes what it sees."""

    def __init__(self, **raises):
        self.raises = raises
        self.seen = []
        self.contexts = []

    def _note(self, name, context, *rest):
        self.seen.append((name, *rest))
        if name != "after":
            self.contexts.append(context)
        error = self.raises.get(name)
        if error is not None and len([each for each in self.seen if each[0] == name]) >= self.raises.get("from_try", 1):
            raise error

    def check_forbidden(self, context):
        self._note("check", context)

    def before_send(self, context):
        context.props["mark"] = len(self.seen)
        self._note("before", context)

    def after_send(self, context, outcome):
        assert "mark" in context.props
        self._note("after", context, outcome)

    @property
    def settings(self):
        names = ("check_forbidden", "before_send", "after_send")
        return {name: getattr(self, name) for name in names}

    @property
    def names(self):
        return [each[0] for each in self.seen]

    @property
    def outcomes(self):
        return [each[1] for each in self.seen if each[0] == "after"]


def message(body=b"hello", **fields):
    return Message("T", body, **fields)


async def test_S16_hooks_see_a_send_before_and_after_it(autojump_clock, opened):
    hooks, broker = Hooks(), SendBroker()
    async with opened(broker, unit_mode=True, **hooks.settings) as (producer, _):
        for _ in range(3):  # the first has no connection yet
            sent = message(keys=["k"])
            result = await producer.send(sent)
            assert hooks.names == ["check", "before", "after"]
            assert hooks.outcomes == [result]
            context = hooks.contexts[-1]
            assert (context.group, context.topic, context.messages) == (producer.config.group, "T", (sent,))
            assert (context.queue, context.broker_address) == (result.queue, broker.address)
            assert (context.message_id, context.oneway, context.unit_mode) == (result.message_id, False, True)
            assert not context.is_batch
            hooks.seen.clear()


async def test_hooks_see_each_message_of_a_batch_and_of_those_that_travel_together(autojump_clock, opened):
    hooks = Hooks()
    async with opened(SendBroker(), **hooks.settings) as (producer, _):
        await producer.send_batch([message(b"1", keys=["k1"], tags="t"), message(b"2")])
        context = hooks.contexts[-1]
        assert context.is_batch
        assert [(each.topic, each.body, each.keys, each.tags) for each in context.messages] == [
            ("T", b"1", ("k1",), "t"),
            ("T", b"2", (), None),
        ]
        assert [each.system_properties["UNIQ_KEY"] for each in context.messages] == context.message_id.split(",")
        hooks.contexts.clear()
        await producer.send_many([message(b"%d" % number) for number in range(10)], batch_size=4)
        bodies = {each.body for context in hooks.contexts for each in context.messages}
        assert bodies == {b"%d" % number for number in range(10)}
    assert hooks.names.count("check") == hooks.names.count("before") == hooks.names.count("after") == 4
    hooks = Hooks()
    async with opened(SendBroker(), linger=0.01, **hooks.settings) as (producer, _):
        await producer.send(message(b"alone", keys=["k"]))
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(producer.send, message(b"%d" % number, keys=["k"]))
    seen = [each for context in hooks.contexts[::2] for each in context.messages]
    assert sorted(each.body for each in seen) == [b"0", b"1", b"2", b"3", b"4", b"alone"]
    assert {each.keys for each in seen} == {("k",)}


async def test_a_oneway_send_has_no_outcome(autojump_clock, opened):
    hooks = Hooks()
    async with opened(SendBroker(), **hooks.settings) as (producer, _):
        await producer.send_oneway(message())
        await producer.send_oneway(message(sharding_key="k"))
    assert hooks.names == ["check", "before", "after"] * 2
    assert hooks.outcomes == [None, None]
    assert all(context.oneway for context in hooks.contexts)


async def test_S16_each_try_has_its_hooks_and_each_one_hears_how_it_went(autojump_clock, opened):
    hooks, broker = Hooks(), SendBroker(script=[ResponseCode.SYSTEM_BUSY, 0, "hang up", "silence"])
    there = {"queue": MessageQueue("T", "broker-a", 0)}
    async with opened(broker, **hooks.settings) as (producer, _):
        await producer.send(message())
        for kind in (ConnectionLostError, RequestTimeoutError):
            with pytest.raises(kind):
                await producer.send(message(), **there)
    assert hooks.names == ["check", "before", "after"] * 4
    kinds = [type(outcome) for outcome in hooks.outcomes]
    assert kinds == [SystemBusyError, SendResult, ConnectionLostError, RequestTimeoutError]


async def test_a_broker_that_goes_away_ends_one_try_and_begins_another(autojump_clock, opened):
    hooks, broker = Hooks(), SendBroker(script=[0, ResponseCode.GO_AWAY])
    async with opened(broker, **hooks.settings) as (producer, _):
        for _ in range(2):
            assert (await producer.send(message())).status is SendStatus.SEND_OK
    assert hooks.names == ["check", "before", "after"] * 3
    assert [type(outcome) for outcome in hooks.outcomes] == [SendResult, BrokerError, SendResult]


async def test_a_lesser_promise_is_heard_once_with_the_result(autojump_clock, opened):
    hooks = Hooks()
    a, b = SendBroker("broker-a", [10]), SendBroker("broker-b", [10])
    settings = {"retry_another_broker_when_not_store_ok": True, "retry_times_when_send_failed": 1}
    async with opened(a, b, **settings, **hooks.settings) as (producer, _):
        assert (await producer.send(message())).status is SendStatus.FLUSH_DISK_TIMEOUT
    assert hooks.names == ["check", "before", "after"] * 2
    assert [outcome.status for outcome in hooks.outcomes] == [SendStatus.FLUSH_DISK_TIMEOUT] * 2


@pytest.mark.parametrize(
    "error",
    [ValueError("mine"), SystemExit(3), GeneratorExit(), ConfigError("mine"), asyncio.CancelledError("mine")],
    ids=repr,
)
@pytest.mark.parametrize("name", ["before", "after"])
async def test_what_they_raise_is_logged_and_the_send_goes_on(autojump_clock, opened, caplog, monkeypatch, name, error):
    monkeypatch.setattr(send_hooks, "Seldom", partial(Seldom, clock=trio.current_time))
    hooks, broker = Hooks(**{name: error}), SendBroker()
    with caplog.at_level(logging.WARNING, "rocketpy.client.send_hooks"):
        async with opened(broker, **hooks.settings) as (producer, _):
            for _ in range(20):
                assert (await producer.send(message())).status is SendStatus.SEND_OK
            await producer.send_oneway(message())
    assert len(hooks.seen) == 63
    text = f"{name}_send failed for a message to T"
    left_out = f"20 more lines left out, the last of them: {text}"
    # Not those of others: loggers of earlier tests may still say what they have left out.
    lines = [record.getMessage() for record in caplog.records if record.name == "rocketpy.client.send_hooks"]
    assert lines == [text, left_out]


class ForbiddenError(Exception):
    """Ours, as a user's."""


@pytest.mark.parametrize(
    "error", [ForbiddenError("no"), SystemBusyError(2, "no"), ConnectError("no"), trio.TooSlowError("no")], ids=repr
)
@pytest.mark.parametrize("from_try", [1, 2])
async def test_what_forbids_a_try_reaches_the_sender_whatever_it_is(autojump_clock, opened, error, from_try):
    hooks = Hooks(check=error, from_try=from_try)
    broker = SendBroker(script=[ResponseCode.SYSTEM_BUSY] * 9)
    settings = {"send_latency_enable": True, **hooks.settings}
    for warm in (False, True):
        async with opened(broker, **settings) as (producer, _):
            if warm:
                await producer.client.pool.get(broker.address, timeout=1)
            with pytest.raises(type(error)) as caught:
                await producer.send(message())
            assert caught.value is error
            assert hooks.names == ["check", "before", "after"] * (from_try - 1) + ["check"]
            hooks.seen.clear()
    assert len(broker.taken) == 2 * (from_try - 1)


@pytest.mark.parametrize("error", [ForbiddenError("no"), ConnectError("no"), trio.TooSlowError("no")], ids=repr)
async def test_nothing_that_is_forbidden_is_sent_in_any_way(autojump_clock, opened, error):
    hooks, broker = Hooks(check=error), SendBroker()
    async with opened(broker, linger=0.01, **hooks.settings) as (producer, _):
        for send in (
            lambda: producer.send(message()),
            lambda: producer.send(message(sharding_key="k")),
            lambda: producer.send(message(delay_level=1)),
            lambda: producer.send_oneway(message()),
            lambda: producer.send_batch([message(), message()]),
            lambda: producer.request(message(), timeout=1),
        ):
            with pytest.raises(type(error)) as caught:
                await send()
            assert str(caught.value) == "no"
        with pytest.raises(Exception, match="no"):
            await producer.send_many([message(), message()])
    assert broker.taken == []
    assert set(hooks.names) == {"check"}


async def test_a_hook_that_raises_without_a_word_is_named_by_its_error(autojump_clock, opened):
    hooks = Hooks(check=ZeroDivisionError())
    async with opened(SendBroker(), **hooks.settings) as (producer, _):
        with pytest.raises(Exception, match=r"could not be sent: ZeroDivisionError\(\)$"):
            await producer.send_many([message()])


async def test_ctrl_c_in_a_hook_ends_the_send(autojump_clock, opened):
    hooks, broker = Hooks(before=KeyboardInterrupt()), SendBroker()
    async with opened(broker, **hooks.settings) as (producer, _):
        with pytest.raises(KeyboardInterrupt):
            await producer.send(message())
    assert broker.taken == []


@pytest.mark.parametrize("name", ["check_forbidden", "before_send", "after_send"])
def test_a_hook_that_cannot_be_called_is_refused(name):
    async def awaited(*arguments):
        """Nobody awaits this."""

    for hook, says in ((awaited, "is async"), (lambda: None, "must be a function of"), (3, "must be a function")):
        with pytest.raises(ConfigError, match=says):
            Producer("g", namesrv="a:1", **{name: hook})


def test_who_has_hooks_has_a_loop_of_its_own_which_they_may_hold_up():
    assert not Producer("g", namesrv="a:1").client.has_hooks_of_users
    assert Producer("g", namesrv="a:1", after_send=lambda context, outcome: None).client.has_hooks_of_users
