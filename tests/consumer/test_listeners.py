"""What listeners mean by what they return; what may be subscribed."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import trio

from rocketpy.client.instance import MQClientInstance
from rocketpy.consumer.listeners import (
    LoggedListeners,
    OrderVerdict,
    Raised,
    Verdict,
    is_async_listener,
    is_ctrl_c,
    judge,
    judge_in_order,
    let_pass,
)
from rocketpy.consumer.lite import LitePullConsumer
from rocketpy.consumer.push import PushConsumer
from rocketpy.consumer.subscription import Subscriptions
from rocketpy.errors import ConfigError
from rocketpy.logs import Seldom, get_logger
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.results import ConsumeResult, RetryLater
from rocketpy.services import only_cancelled
from tests.consumer.helpers import stored, stored_range

SELDOM = Seldom(get_logger("rocketpy.consumer.listeners"), interval=0)

LEVEL_OF_BROKER = 0


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (None, Verdict(3)),
        (True, Verdict(3)),
        (False, Verdict(0, LEVEL_OF_BROKER)),
        (ConsumeResult.SUCCESS, Verdict(3)),
        (ConsumeResult.RETRY, Verdict(0, LEVEL_OF_BROKER)),
        (RetryLater(), Verdict(0, LEVEL_OF_BROKER)),
        (RetryLater(5), Verdict(0, 5)),
        (RetryLater(-1), Verdict(0, -1)),
        (RetryLater(5, done=2), Verdict(2, 5)),
        (RetryLater(-1, done=3), Verdict(3, -1)),
        (0, Verdict(0)),
        (2, Verdict(2)),
        (3, Verdict(3)),
    ],
)
def test_RT1_what_listeners_may_return(outcome: object, verdict: Verdict, caplog: pytest.LogCaptureFixture) -> None:
    assert judge(outcome, stored_range(0, 3), batch=True, seldom=SELDOM) == verdict
    assert not caplog.records


@pytest.mark.parametrize("outcome", [4, -1, "ok", b"", {}, 1.0, ConsumeResult, RetryLater])
def test_threat_L7_junk_counts_as_failed_and_is_told(outcome: object, caplog: pytest.LogCaptureFixture) -> None:
    assert judge(outcome, stored_range(0, 3), batch=True, seldom=SELDOM) == Verdict(0)
    assert "which has no meaning here: return None, True or ConsumeResult.SUCCESS if it is done, and" in caplog.text
    assert "False, ConsumeResult.RETRY or a RetryLater if it is to be tried again" in caplog.text
    assert "or an int, how many of the 3 messages are done, counted from the front. It is tried again." in caplog.text
    assert "and 2 more" in caplog.text


def test_threat_L7_a_number_is_junk_from_a_listener_of_single_messages(caplog: pytest.LogCaptureFixture) -> None:
    assert judge(1, [stored(0)], batch=False, seldom=SELDOM) == Verdict(0)
    assert "the listener returned 1 for <MessageExt U000000" in caplog.text
    assert "how many" not in caplog.text


@pytest.mark.parametrize(("count", "batch"), [(1, False), (3, True)])
def test_threat_L7_more_done_than_there_were_is_junk(count: int, batch: bool, caplog: pytest.LogCaptureFixture) -> None:
    outcome = RetryLater(-1, done=4 if batch else 1)
    assert judge(outcome, stored_range(0, count), batch=batch, seldom=SELDOM) == Verdict(0)
    assert f"`done` is a number of messages in its list, here at most {count}" in caplog.text


@pytest.mark.parametrize("done", [-1, True, 1.0, "1", None])
def test_what_is_done_is_a_count(done: Any) -> None:
    with pytest.raises(ConfigError, match="done must be how many messages"):
        RetryLater(3, done=done)


@pytest.mark.parametrize("level", [1.0, True, "3", None, -2, 1001, float("nan")])
def test_a_level_is_a_whole_number(level: Any) -> None:
    with pytest.raises(ConfigError, match="delay_level must be -1, 0 or a level"):
        RetryLater(level)


@pytest.mark.parametrize("in_order", [True, False])
def test_threat_L7_a_mistake_is_logged_once_for_each_listener(in_order: bool, caplog: pytest.LogCaptureFixture) -> None:
    def one(message: object) -> str:
        return "done"

    def another(message: object) -> int:
        return 7

    logged = LoggedListeners()
    for listener in (one, another, one, another, one):
        outcome = listener(None)
        if in_order:
            judge_in_order(
                outcome,
                [stored(0)],
                batch=False,
                auto_commit=True,
                pause=1.0,
                seldom=SELDOM,
                listener=listener,
                logged=logged,
            )
        else:
            judge(outcome, [stored(0)], batch=False, seldom=SELDOM, listener=listener, logged=logged)
    assert [entry.levelname for entry in caplog.records] == ["ERROR", "ERROR"]
    assert "returned 'done'" in caplog.records[0].message
    assert "returned 7" in caplog.records[1].message


def test_a_listener_that_broadcasts_is_told_that_a_mistake_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    judge("done", [stored(0)], batch=False, seldom=SELDOM, again=False)
    assert "It is not tried again." in caplog.text


def test_an_async_listener_without_a_loop_of_asyncio_is_told_where_it_runs(caplog: pytest.LogCaptureFixture) -> None:
    async def on_asyncio(message: object) -> None: ...

    def plain(message: object) -> None: ...

    failure = Raised(RuntimeError("no running event loop"))
    judge(failure, [stored(0)], batch=False, seldom=SELDOM, listener=plain)
    judge(Raised(RuntimeError("no")), [stored(0)], batch=False, seldom=SELDOM, listener=on_asyncio)
    assert "asyncio" not in caplog.messages[0] + caplog.messages[1]
    judge(failure, [stored(0)], batch=False, seldom=SELDOM, listener=on_asyncio)
    assert "async listeners of rocketpy.sync run on trio" in caplog.messages[2]
    assert "rocketpy.aio, which is for asyncio" in caplog.messages[2]


class _Detached:
    """Like a row of a database whose session has ended."""

    def __repr__(self) -> str:
        raise RuntimeError("no session")


class _Unbound:
    """Like a proxy outside of its request."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("no request")


def _begun() -> object:
    """A coroutine that has started, and cannot be closed."""

    async def stubborn() -> None:
        with suppress(GeneratorExit):
            await trio.lowlevel.cancel_shielded_checkpoint()
        await trio.lowlevel.cancel_shielded_checkpoint()

    begun = stubborn()
    begun.send(None)
    return begun


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("interval", [0, 1])
@pytest.mark.parametrize("make", [_Detached, _Unbound, _begun])
def test_threat_L7_what_cannot_even_be_looked_at_is_junk_too(
    make: Callable[[], object], interval: int, batch: bool, caplog: pytest.LogCaptureFixture
) -> None:
    seldom = Seldom(get_logger("rocketpy.consumer.listeners"), interval=interval)
    for _ in range(2):  # the second one is not logged within a second, but its text is made nevertheless
        assert judge(make(), [stored(0)], batch=batch, seldom=seldom) == Verdict(0)
        verdict = judge_in_order(make(), [stored(0)], batch=batch, auto_commit=True, pause=1.0, seldom=seldom)
        assert verdict == OrderVerdict(0, 1.0)
    assert "which has no meaning here" in caplog.text
    gc.collect()


def test_threat_L7_a_coroutine_is_never_awaited_and_does_not_go_by_unnoticed(caplog: pytest.LogCaptureFixture) -> None:
    async def listener(message: object) -> None:
        raise AssertionError("never awaited")

    assert judge(listener(None), [stored(0)], batch=False, seldom=SELDOM) == Verdict(0)
    assert "must be an `async def` function itself" in caplog.text


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), BaseException()])
def test_threat_L7_whatever_is_raised_counts_as_failed(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    assert judge(Raised(error), [stored(7)], batch=False, seldom=SELDOM) == Verdict(0)
    [entry] = caplog.records
    assert entry.exc_info is not None
    assert entry.exc_info[1] is error
    assert "U000007" in entry.message


async def test_cancellation_and_ctrl_c_are_not_the_listener_s_own() -> None:
    task = trio.lowlevel.current_task()
    for error in (KeyboardInterrupt(), BaseExceptionGroup("", [ValueError(), KeyboardInterrupt()])):
        assert is_ctrl_c(error)
        with pytest.raises(type(error)):
            let_pass(error, task)
    for own in (SystemExit(), GeneratorExit(), BaseException(), ExceptionGroup("", [ValueError()])):
        assert not is_ctrl_c(own)
        let_pass(own, task)
    with trio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(trio.Cancelled) as caught:
            await trio.sleep_forever()
        with pytest.raises(trio.Cancelled):
            let_pass(caught.value, task)


async def test_what_failed_while_it_was_cancelled_is_logged_and_only_the_cancellation_passes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        both = BaseExceptionGroup("", [ValueError("no"), await cancelled()])
        with pytest.raises(BaseExceptionGroup) as passed:
            let_pass(both, trio.lowlevel.current_task())
    assert only_cancelled(passed.value)
    [entry] = caplog.records
    assert "failed while it was cancelled" in entry.message
    assert entry.exc_info is not None
    assert "no" in str(entry.exc_info[1].exceptions)  # type: ignore[union-attr]


async def cancelled() -> BaseException:
    try:
        await trio.sleep_forever()
    except trio.Cancelled as caught:
        return caught
    raise AssertionError("not cancelled")


def test_a_task_that_the_interpreter_takes_down_ends() -> None:
    """What is thrown in from outside of the task is no failure of the listener, which has no say any more."""
    tasks: list[trio.lowlevel.Task] = []

    async def one() -> None:
        tasks.append(trio.lowlevel.current_task())

    async def another() -> None:
        for error in (GeneratorExit(), BaseExceptionGroup("", [ValueError(), GeneratorExit()])):
            with pytest.raises(type(error)):
                let_pass(error, tasks[0])

    trio.run(one)
    trio.run(another)
    with pytest.raises(GeneratorExit):
        let_pass(GeneratorExit(), tasks[0])


class _Listeners:
    async def method(self, message: object) -> None: ...

    def plain(self, message: object) -> None: ...

    async def __call__(self, message: object) -> None: ...


def test_async_listeners_are_told_from_plain_ones() -> None:
    async def function(message: object) -> None: ...

    def plain(message: object) -> None: ...

    listeners = _Listeners()
    for each in (function, functools.partial(function), listeners, listeners.method, functools.partial(listeners)):
        assert is_async_listener(each)
    for other in (plain, functools.partial(plain), listeners.plain, print, [].append):
        assert not is_async_listener(other)


# --- subscriptions -----------------------------------------------------------------------------------------


def listener(message: object) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "keywords", "text"),
    [
        (("Or ders", listener), {}, "has characters besides letters"),
        (("", listener), {}, "the topic is blank"),
        (("T" * 128, listener), {}, "127 are allowed"),
        (("Orders", "listener"), {}, "the listener of Orders must be a function"),
        (("Orders", None), {}, "the listener of Orders must be a function"),
        (("Orders", lambda: None), {}, "a function of one argument, the message .*too many positional arguments"),
        (("Orders", lambda message, context: None), {}, "a function of one argument.*missing a required argument"),
        (("Orders", listener), {"tags": "||"}, "no tag between its separators"),
        (("Orders", listener), {"tags": ["a"]}, "tags must be a text"),
        (("Orders", listener), {"tags": "a", "sql": "a = 1"}, "by tags or by sql"),
        (("Orders", listener), {"sql": "  "}, "must be an expression"),
        (("%RETRY%billing", listener), {}, "is subscribed automatically"),
    ],
)
def test_PC1_what_cannot_be_subscribed(arguments: tuple[Any, ...], keywords: dict[str, Any], text: str) -> None:
    consumer = PushConsumer("billing", namesrv="a:1")
    with pytest.raises(ConfigError, match=text):
        consumer.subscribe(*arguments, **keywords)
    assert consumer.status().topics == ()


@pytest.mark.parametrize("topic", ["Orders", "%RETRY%billing", None, [], {}, 3])
def test_PC1_what_cannot_be_unsubscribed(topic: Any) -> None:
    for consumer in (PushConsumer("billing", namesrv="a:1"), LitePullConsumer("billing", namesrv="a:1")):
        with pytest.raises(ConfigError, match="is not subscribed; subscribed topics: none"):
            consumer.unsubscribe(topic)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"group": "bil ling"}, "group 'bil ling' has characters"),
        ({"group": ""}, "group is blank"),
        ({"consume_thread_max": 0}, "consume_thread_max must be between 1 and 1000"),
        ({"pull_batch_size": 1025}, "pull_batch_size must be between 1 and 1024"),
        ({"consume_message_batch_max_size": 0}, "consume_message_batch_max_size"),
        ({"pull_threshold_for_queue": 65_536}, "pull_threshold_for_queue"),
        ({"consume_concurrently_max_span": 0}, "consume_concurrently_max_span"),
        ({"consume_timestamp": "yesterday"}, "must look like 20240131235959"),
        ({"allocate_strategy": "nearby"}, "allocate_strategy"),
        ({"offset_store": object()}, "methods read and write, and .* has no read"),
        ({"offset_store": dict}, "not the class dict"),
        ({"local_offset_store_dir": 7}, "path of a folder"),
        ({"local_offset_store_dir": ""}, "path of a folder"),
        ({"nonsense": 1}, "has no setting nonsense"),
        ({"namesrv": ""}, "name server"),
    ],
)
def test_PC1_settings_are_checked_before_anything_starts(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        PushConsumer(**{"group": "billing", "namesrv": "a:1", **settings})


def test_PC1_a_client_brings_its_own_network() -> None:
    client = MQClientInstance(namesrv="a:1", network=MemoryNetwork())
    with pytest.raises(ConfigError, match="give a client or a network, not both"):
        PushConsumer("billing", client=client, network=client.network)
    assert PushConsumer("billing", client=client).config.namesrv == ("a:1",)


def test_PC1_a_group_is_needed() -> None:
    with pytest.raises(ConfigError, match="needs group"):
        PushConsumer(namesrv="a:1")


def test_brokers_hear_what_is_subscribed() -> None:
    changes: list[int] = []
    subscriptions = Subscriptions("billing", lambda: changes.append(1))
    assert subscriptions.topics == ()
    subscriptions.add("Orders", listener, tags="a || b")
    subscriptions.add("Bills", listener, sql="amount > 5")
    subscriptions.add("Orders", listener, tags="c")
    assert {each.topic: (each.sub_string, each.expression_type) for each in subscriptions.data()} == {
        "%RETRY%billing": ("*", "TAG"),
        "Orders": ("c", "TAG"),
        "Bills": ("amount > 5", "SQL92"),
    }
    assert subscriptions.user_topics == ("Orders", "Bills")
    assert len(changes) == 3


def test_F2_tags_are_compared_by_their_text() -> None:
    subscriptions = Subscriptions("billing", lambda: None)
    subscriptions.add("Orders", listener, tags="Aa || tag2")
    subscription = subscriptions.get("Orders")
    assert subscription is not None
    messages = [stored(offset, properties=each) for offset, each in enumerate(({"TAGS": "Aa"}, {"TAGS": "BB"}, {}))]
    assert [each.queue_offset for each in subscription.filtered(messages)] == [0]
    subscriptions.add("Orders", listener)
    everything = subscriptions.get("Orders")
    assert everything is not None
    assert everything.filtered(messages) is messages


def test_retried_messages_show_the_topic_they_were_sent_to() -> None:
    subscriptions = Subscriptions("billing", lambda: None)
    retried = stored(0, topic="%RETRY%billing", properties={"RETRY_TOPIC": "Orders"})
    strange = stored(1, topic="%RETRY%billing")
    other = stored(2, topic="Bills", properties={"RETRY_TOPIC": "Orders"})
    subscriptions.show_original_topic([retried, strange, other])
    assert [each.topic for each in (retried, strange, other)] == ["Orders", "%RETRY%billing", "Bills"]
