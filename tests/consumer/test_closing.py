"""Closing: in order, losing nothing, repeating nothing, within its time."""

from __future__ import annotations

import signal

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.instance import MQClientInstance
from rocketpy.errors import ClientClosedError, ServiceCrashedError
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.results import ConsumeFromWhere, ConsumeResult
from rocketpy.wire.codes import RequestCode
from tests.consumer.brokers import queue, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Slow:
    """An async listener that takes its time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began: list[int] = []
        self.ended: list[int] = []
        self.cut_off: list[int] = []

    async def __call__(self, message: MessageExt) -> None:
        self.began.append(message.queue_offset)
        try:
            await trio.sleep(self.seconds)
        except trio.Cancelled:
            self.cut_off.append(message.queue_offset)
            raise
        self.ended.append(message.queue_offset)


async def test_PC1_listeners_finish_then_offsets_are_committed_then_the_group_is_left(
    autojump_clock: MockClock,
) -> None:
    async with world() as w:
        w.broker.store(100)
        listener = Slow(4)
        consumer = w.consumer(consume_from_where=FIRST, consume_thread_max=5)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(1)
            pulls, asked = len(w.broker.pulls), len(w.broker.requests)
            started = trio.current_time()
        assert trio.current_time() - started == pytest.approx(3)
        # Only what had begun is finished; nothing else was begun, and nothing more was pulled.
        assert sorted(listener.began) == sorted(listener.ended) == [0, 1, 2, 3, 4]
        assert len(w.broker.pulls) == pulls
        assert w.broker.offsets["Orders", 0] == 5
        codes = [each.code for each in w.broker.requests[asked:] if each.code != RequestCode.HEART_BEAT]
        assert codes == [
            RequestCode.UPDATE_CONSUMER_OFFSET,
            RequestCode.UPDATE_CONSUMER_OFFSET,
            RequestCode.UNREGISTER_CLIENT,
        ]
        assert not any(each.is_oneway for each in w.broker.requests[asked:])
        assert w.broker.left[0].consumer_group == "billing"
        assert not consumer.client.is_open


async def test_a_listener_that_hangs_at_closing_is_cut_off_and_its_message_comes_again(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        w.broker.store(3)
        listener = Slow(1_000)
        consumer = w.consumer(consume_from_where=FIRST, await_termination=7)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(1)
            started = trio.current_time()
        assert trio.current_time() - started == pytest.approx(7)
        assert sorted(listener.cut_off) == [0, 1, 2]
        # Neither acknowledged nor given back.
        assert w.broker.offsets["Orders", 0] == 0
        assert w.broker.sent_back == []
        assert "are still running after 7 s" in caplog.text
        assert (
            "closing the consumer of group billing: waiting up to 6 s for 3 listener calls (the oldest: "
            "Orders@broker-a:0, running for 2 s)"
        ) in caplog.text
        second, again = w.consumer(), Slow(0.1)
        second.subscribe("Orders", again)
        async with second:
            await trio.sleep(1)
        assert sorted(again.ended) == [0, 1, 2]


async def test_who_shields_a_listener_keeps_nothing_else_from_its_end(autojump_clock: MockClock) -> None:
    """What the others have done is committed, hooks are called and the group is left, within the time for it."""
    async with world() as w:
        w.broker.store(3)
        revoked: list[MessageQueue] = []
        left_at: list[float] = []
        w.broker.on(RequestCode.UNREGISTER_CLIENT, lambda *_: left_at.append(trio.current_time()))

        async def listener(message: MessageExt) -> None:
            if message.queue_offset == 2:
                with trio.CancelScope(shield=True):
                    await trio.sleep(60)

        consumer = w.consumer(
            consume_from_where=FIRST,
            await_termination=7,
            close_timeout=4,
            on_revoked=lambda queues: revoked.extend(queues),
        )
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(1)
            closed_at = trio.current_time()
        assert w.broker.offsets["Orders", 0] == 2
        assert revoked == [queue(0)]
        assert 7 <= left_at[0] - closed_at <= 7 + 4


async def test_a_quick_close_says_nothing(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with world() as w:
        w.broker.store(1)
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", Slow(1.5))
        async with consumer:
            await trio.sleep(1)
    assert "closing the consumer" not in caplog.text


@pytest.mark.parametrize("state", ["idle", "in a listener", "giving back"])
async def test_a_close_without_patience_warns_of_what_is_under_way_only(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, state: str
) -> None:
    async def listen(message: MessageExt) -> ConsumeResult:
        await trio.sleep(3600 if state == "in a listener" else 0)
        return ConsumeResult.RETRY if state == "giving back" else ConsumeResult.SUCCESS

    async with world() as w:
        w.broker.store(3)
        w.broker.send_back_code = "silence"
        consumer = w.consumer(consume_from_where=FIRST, await_termination=0)
        consumer.subscribe("Orders", listen)
        async with consumer:
            await trio.sleep(1)
        assert ("listeners of billing are still running after 0 s" in caplog.text) == (state != "idle")


async def test_a_listener_that_raises_at_closing_has_its_message_given_back_first(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(2)

        async def listener(message: MessageExt) -> ConsumeResult | None:
            await trio.sleep(2)
            return ConsumeResult.RETRY if message.queue_offset == 0 else None

        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(1)
        assert [back.offset for back in w.broker.sent_back] == [10_000]
        assert w.broker.offsets["Orders", 0] == 2


async def test_whoever_is_cancelled_closes_in_the_same_order(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(3)
        listener = Slow(3)
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", listener)
        with trio.move_on_after(1) as scope:
            async with consumer:
                await trio.sleep_forever()
        assert scope.cancelled_caught
        assert sorted(listener.ended) == [0, 1, 2]
        assert w.broker.offsets["Orders", 0] == 3
        assert [each.consumer_group for each in w.broker.left] == ["billing"]


async def test_an_error_of_the_body_comes_out_bare(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(3)
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: None)
        with pytest.raises(LookupError, match="mine"):  # noqa: PT012  it comes through `async with`
            async with consumer:
                await trio.sleep(1)
                raise LookupError("mine")
        assert w.broker.offsets["Orders", 0] == 3


async def test_brokers_that_are_away_do_not_hold_closing_up(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(3)
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            await trio.sleep(1)
            for link in w.network.links():
                link.pause()
            started = trio.current_time()
        assert trio.current_time() - started < 15


async def test_a_start_that_is_cancelled_leaves_nothing_behind(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.on(RequestCode.GET_CONSUMER_LIST_BY_GROUP, lambda connection, request: None)
        consumer = w.consumer()
        consumer.subscribe("Orders", lambda message: None)
        with trio.move_on_after(2) as scope:
            async with consumer:
                raise AssertionError("nobody gets here")
        assert scope.cancelled_caught
        assert consumer.status().state == "not started"
        assert [each.consumer_group for each in w.broker.left] == ["billing"]
        w.broker.on(RequestCode.GET_CONSUMER_LIST_BY_GROUP, w.broker.list_members)
        async with consumer:
            assert consumer.assignment == (queue(),)


async def test_a_shared_client_stays_open(autojump_clock: MockClock) -> None:
    async with world() as w, MQClientInstance(namesrv=w.name_server.address, network=w.network) as client:
        w.broker.store(3)
        consumer = w.consumer(namesrv=(), network=None, client=client, consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            await trio.sleep(1)
        assert client.is_open
        assert w.broker.offsets["Orders", 0] == 3
        assert [each.consumer_group for each in w.broker.left] == ["billing"]


async def test_a_client_that_is_closed_first_ends_the_consumer_without_noise(autojump_clock: MockClock) -> None:
    async with world() as w, trio.open_nursery() as nursery:
        client = MQClientInstance(namesrv=w.name_server.address, network=w.network)
        close = trio.Event()

        async def own_client(task_status: trio.TaskStatus[None]) -> None:
            async with client:
                task_status.started()
                await close.wait()

        await nursery.start(own_client)
        consumer = w.consumer(namesrv=(), network=None, client=client, consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: None)
        async with consumer:
            close.set()
            await trio.sleep(60)
            pulls = len(w.broker.pulls)
            w.broker.store(3)
            await trio.sleep(60)
            assert len(w.broker.pulls) == pulls
        assert consumer.status().state == "closed"


async def test_a_bug_in_a_service_ends_the_consumer_loudly(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world() as w:
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", lambda message: None)
        started = trio.current_time()

        def fail(*_: object) -> None:
            raise ZeroDivisionError("a bug")

        with pytest.raises(ServiceCrashedError, match="a bug"):  # noqa: PT012  it comes through `async with`
            async with consumer:
                assert consumer._running is not None
                monkeypatch.setattr(consumer._running.consume, "submit", fail)
                w.broker.store(1)
                await trio.sleep_forever()
        assert trio.current_time() - started < 5
        assert consumer.status().state == "closed"


async def test_use_after_closing(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.consumer()
        consumer.subscribe("Orders", lambda message: None)
        with pytest.raises(ClientClosedError, match="not started"):
            await consumer.wait_assigned(1)
        with pytest.raises(ClientClosedError, match="not started"):
            consumer.statistics()
        assert consumer.assignment == ()
        async with consumer:
            pass
        with pytest.raises(ClientClosedError, match="closed"):
            await consumer.wait_assigned(1)
        with pytest.raises(ClientClosedError, match="closed"):
            await consumer.run_forever()
        assert consumer.statistics().rebalances >= 1
        assert repr(consumer) == "<PushConsumer billing closed>"
        with pytest.raises(TypeError, match="cannot be pickled"):
            consumer.__reduce_ex__(4)


async def test_run_forever_ends_with_a_signal_and_everything_is_committed(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(3)
        for number in (signal.SIGTERM, signal.SIGINT):
            consumer = w.consumer(consume_from_where=FIRST)
            consumer.subscribe("Orders", lambda message: None)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consumer.run_forever)
                await trio.sleep(1)
                assert consumer.status().state == "open"
                signal.raise_signal(number)
            assert consumer.status().state == "closed"
            assert w.broker.offsets["Orders", 0] == 3


async def test_run_forever_within_async_with_leaves_closing_to_it(autojump_clock: MockClock) -> None:
    async with world() as w:
        consumer = w.consumer()
        consumer.subscribe("Orders", lambda message: None)
        async with consumer, trio.open_nursery() as nursery:
            nursery.start_soon(consumer.run_forever)
            await trio.sleep(1)
            signal.raise_signal(signal.SIGTERM)
            nursery.start_soon(trio.lowlevel.checkpoint)
            assert consumer.status().state == "open"
        assert consumer.status().state == "closed"


async def test_a_second_signal_strikes_as_usual_while_it_closes(autojump_clock: MockClock) -> None:
    struck: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: struck.append(number))
    try:
        async with world() as w:
            w.broker.store(1)
            listener = Slow(4)
            consumer = w.consumer(consume_from_where=FIRST)
            consumer.subscribe("Orders", listener)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consumer.run_forever)
                await trio.sleep(1)
                signal.raise_signal(signal.SIGTERM)
                await trio.sleep(1)
                assert (consumer.status().state, struck, listener.ended) == ("closing", [], [])
                signal.raise_signal(signal.SIGTERM)
                assert struck == [signal.SIGTERM]
            assert (consumer.status().state, listener.ended) == ("closed", [0])
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_who_waits_for_queues_hears_of_the_closing(autojump_clock: MockClock) -> None:
    async with world() as w, trio.open_nursery() as nursery:
        consumer = w.consumer()

        async def wait() -> None:
            with pytest.raises(ClientClosedError):
                await consumer.wait_assigned()

        with trio.fail_after(60):
            async with consumer:
                nursery.start_soon(wait)
                await trio.testing.wait_all_tasks_blocked()
            await trio.testing.wait_all_tasks_blocked()
            assert not nursery.child_tasks


async def test_who_waits_for_queues_hears_of_a_shared_client_that_closes(autojump_clock: MockClock) -> None:
    async with world() as w, trio.open_nursery() as nursery:
        client = MQClientInstance(namesrv=w.name_server.address, network=w.network)
        close = trio.Event()

        async def own_client(task_status: trio.TaskStatus[None]) -> None:
            async with client:
                task_status.started()
                await close.wait()

        await nursery.start(own_client)
        async with w.consumer(namesrv=(), network=None, client=client) as consumer:
            nursery.start_soon(_later, close)
            with trio.fail_after(60):
                with pytest.raises(ClientClosedError):
                    await consumer.wait_assigned()


async def _later(event: trio.Event) -> None:
    await trio.sleep(1)
    event.set()
