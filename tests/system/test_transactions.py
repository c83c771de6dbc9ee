"""Producers of transactions and a whole cluster, in one loop and in virtual time."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import ClientClosedError, ConfigError, SendError
from rocketpy.message import Message, MessageExt
from rocketpy.producer import Producer, TransactionProducer
from rocketpy.results import LocalTransactionState, SendStatus
from rocketpy.wire.codes import RequestCode
from tests.system.cable import Cable
from tests.system.consuming import Recorder, World, wait_until, world

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN


class Book:
    """The local half: what has become of each transaction, as a database would know."""

    def __init__(self, state: Any = COMMIT) -> None:
        self.state = state
        self.states: dict[str | None, Any] = {}
        self.checked: list[str | None] = []
        self.args: list[Any] = []

    async def execute(self, message: Message, arg: Any) -> Any:
        self.args.append(arg)
        self.states[message.transaction_id] = self.state
        return self.state

    async def check(self, message: MessageExt) -> Any:
        self.checked.append(message.transaction_id)
        return self.states.get(message.transaction_id, UNKNOWN)


async def unsure(message: MessageExt) -> LocalTransactionState:
    return UNKNOWN


async def commit(message: Message, arg: Any) -> LocalTransactionState:
    return COMMIT


async def hesitate(message: Message, arg: Any) -> LocalTransactionState:
    return UNKNOWN


def transactions(w: World, checker: Any, group: str = "orders", **settings: Any) -> TransactionProducer:
    settings = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network, **settings}
    return TransactionProducer(group, checker=checker, **settings)


async def open_halves(w: World) -> int:
    (broker,) = w.cluster.brokers
    return int(broker.runtime_info()["openTransactions"])


# --- what becomes of them --------------------------------------------------------------------------------


async def test_TX1_committed_messages_are_delivered_and_others_are_not(autojump_clock: MockClock) -> None:
    book, got = Book(), Recorder()
    async with world() as w, w.consumer() as consumer, transactions(w, book.check, executor=book.execute) as producer:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        for number in range(20):
            book.state = COMMIT if number % 2 else ROLLBACK
            result = await producer.send_in_transaction(Message("Orders", b"%d" % number, keys=[f"k{number}"]), arg=7)
            assert (result.local_state, result.status, result.error) == (book.state, SendStatus.SEND_OK, None)
            assert result.transaction_id == result.message_id in book.states
        await got.wait_count(10)
        await trio.sleep(120)
        assert got.bodies == {b"%d" % number: 1 for number in range(1, 20, 2)}
        assert set(book.args) == {7}
        assert book.checked == []
        assert {message.transaction_id for message in got.messages} < book.states.keys()
        assert await open_halves(w) == 0


async def test_TX2_what_is_not_known_is_asked_for(autojump_clock: MockClock) -> None:
    book, got = Book(UNKNOWN), Recorder()
    async with world() as w, w.consumer() as consumer, transactions(w, book.check) as producer:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        ids = []
        for number in range(3):
            result = await producer.send_in_transaction(Message("Orders", b"%d" % number), book.execute)
            assert result.local_state is UNKNOWN
            ids.append(result.transaction_id)
        await trio.sleep(35)
        assert sorted(book.checked, key=ids.index) == ids
        book.states |= {ids[0]: COMMIT, ids[1]: ROLLBACK}
        await trio.sleep(30)
        assert got.bodies == {b"0": 1}
        assert book.checked[3:] == ids
        await trio.sleep(30)
        assert book.checked[6:] == [ids[2]]
        assert producer.check_statistics().answered == 7


async def test_an_executor_may_be_plain_and_may_be_of_the_send(autojump_clock: MockClock) -> None:
    def execute(message: Message, arg: str) -> LocalTransactionState:
        assert message.body == b"x"
        return LocalTransactionState[arg]

    async with world() as w, transactions(w, unsure, executor=hesitate) as producer:
        message = Message("Orders", b"x")
        assert (await producer.send_in_transaction(message, execute, "COMMIT")).local_state is COMMIT
        assert (
            await producer.send_in_transaction(message, functools.partial(execute), "ROLLBACK")
        ).local_state is ROLLBACK
        assert (await producer.send_in_transaction(message)).local_state is UNKNOWN
        assert set(message.wire_properties) == {"WAIT"}  # the user's own is not touched


async def test_a_producer_of_transactions_is_a_producer(autojump_clock: MockClock) -> None:
    got = Recorder()
    async with world() as w, w.consumer() as consumer, transactions(w, unsure) as producer:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        await producer.send(Message("Orders", b"plain"))
        await producer.send_batch([Message("Orders", b"a"), Message("Orders", b"b")])
        await got.wait_count(3)
        assert isinstance(producer, Producer)


async def test_messages_of_one_key_go_to_one_queue(autojump_clock: MockClock) -> None:
    async with world() as w, transactions(w, unsure, executor=commit) as producer:
        results = [
            await producer.send_in_transaction(Message("Orders", b"%d" % number, sharding_key="42"))
            for number in range(8)
        ]
        assert len({result.send_result.queue for result in results}) == 1
        chosen = await producer.send_in_transaction(
            Message("Orders", b"x"), selector=lambda queues, message, arg: queues[arg], arg=3
        )
        assert chosen.send_result.queue.queue_id == 3


# --- executors that fail -----------------------------------------------------------------------------------


async def test_an_executor_that_raises_leaves_the_state_unknown(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    failure, book = ValueError("the database is away"), Book()

    async def execute(message: Message, arg: Any) -> LocalTransactionState:
        book.states[message.transaction_id] = ROLLBACK
        raise failure

    async with world() as w, transactions(w, book.check) as producer:
        result = await producer.send_in_transaction(Message("Orders", b"x"), execute)
        assert (result.local_state, result.error) == (UNKNOWN, failure)
        assert "the executor raised ValueError" in caplog.text
        await trio.sleep(35)
        assert book.checked == [result.transaction_id]
        assert await open_halves(w) == 0


ADVICE = "return LocalTransactionState.COMMIT, ROLLBACK or UNKNOWN, or 'commit', 'rollback' or 'unknown'"


@pytest.mark.parametrize("nonsense", [None, True, "COMMITTED", b"commit", 8, SendStatus.SEND_OK])
async def test_what_is_no_state_never_commits(
    autojump_clock: MockClock, nonsense: object, caplog: pytest.LogCaptureFixture
) -> None:
    got, book = Recorder(), Book(nonsense)
    async with world() as w, w.consumer() as consumer, transactions(w, book.check) as producer:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        result = await producer.send_in_transaction(Message("Orders", b"x"), book.execute)
        assert result.local_state is UNKNOWN
        assert isinstance(result.error, ConfigError)
        shown = repr(nonsense) if isinstance(nonsense, str) else type(nonsense).__name__
        says = f"the executor returned {shown}, which is not a LocalTransactionState: {ADVICE}"
        assert str(result.error) == says
        await trio.sleep(100)
        assert book.checked == [result.transaction_id] * 3
        assert got.messages == []
        lines = [record.getMessage() for record in caplog.records]
        assert any(line.endswith(says) for line in lines)
        assert any("the checker returned" in line and line.endswith(ADVICE) for line in lines)
        assert all(record.exc_info is None for record in caplog.records)  # nothing was raised: no traceback
        assert producer.check_statistics().failed == 3


async def test_a_coroutine_of_a_plain_function_is_closed_and_the_log_says_what_to_do(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    async def never(*arguments: object) -> LocalTransactionState:
        raise AssertionError("it is not awaited")

    got = Recorder()
    async with world() as w, w.consumer() as consumer, transactions(w, lambda half: never(half)) as producer:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        result = await producer.send_in_transaction(Message("Orders", b"x"), lambda half, arg: never(half, arg))
        says = "the {0} returned a coroutine: make the {0} an `async def` function itself"
        assert (result.local_state, str(result.error)) == (UNKNOWN, says.format("executor"))
        await trio.sleep(35)
        assert producer.check_statistics().failed == 1
        assert got.messages == []
    lines = [record.getMessage() for record in caplog.records]
    for what in ("executor", "checker"):
        assert any(line.endswith(says.format(what)) for line in lines)
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


async def test_a_send_that_is_cancelled_in_its_executor_is_asked_about(autojump_clock: MockClock) -> None:
    book = Book()

    async def execute(message: Message, arg: Any) -> LocalTransactionState:
        book.states[message.transaction_id] = COMMIT
        await trio.sleep_forever()
        raise AssertionError("it was cancelled")

    got = Recorder()
    async with world() as w, w.consumer() as consumer, transactions(w, book.check) as producer:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        with trio.move_on_after(1):
            await producer.send_in_transaction(Message("Orders", b"x"), execute)
        await got.wait_count(1)
        assert len(book.checked) == 1


async def test_a_half_that_is_not_stored_as_it_should_be_is_rolled_back(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    async def execute(message: Message, arg: Any) -> LocalTransactionState:
        called.append(message)
        return COMMIT

    async with world() as w, transactions(w, unsure, executor=execute) as producer:
        send = producer.send

        async def half_stored(message: Message, **more: Any) -> Any:
            return (await send(message, **more))._replace(status=SendStatus.FLUSH_DISK_TIMEOUT)

        monkeypatch.setattr(producer, "send", half_stored)
        result = await producer.send_in_transaction(Message("Orders", b"x"))
        assert (result.local_state, result.status) == (ROLLBACK, SendStatus.FLUSH_DISK_TIMEOUT)
        await wait_all_tasks_blocked()
        assert await open_halves(w) == 0
        assert called == []


# --- checkers that fail ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit(1), GeneratorExit(), asyncio.CancelledError()])
async def test_a_checker_that_raises_does_not_know(
    autojump_clock: MockClock, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    asked = 0

    async def check(message: MessageExt) -> LocalTransactionState:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise error
        return COMMIT

    got = Recorder()
    async with world() as w, w.consumer() as consumer, transactions(w, check, executor=hesitate) as producer:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        await producer.send_in_transaction(Message("Orders", b"x"))
        await trio.sleep(65)
        assert (asked, got.messages) == (2, [])
        assert f"the checker raised {type(error).__name__}" in caplog.text
        await got.wait_count(1)


async def test_what_a_failed_checker_has_held_is_free_without_a_collection(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Large:
        pass

    held: list[weakref.ref[Large]] = []

    async def check(message: MessageExt) -> LocalTransactionState:
        large = Large()
        held.append(weakref.ref(large))
        raise RuntimeError("no")

    # The records that pytest keeps have the errors, and so what their frames hold.
    monkeypatch.setattr(logging.getLogger("rocketpy.producer.checks"), "disabled", True)
    async with world() as w, transactions(w, check, executor=hesitate) as producer:
        await producer.send_in_transaction(Message("Orders", b"x"))
        gc.disable()
        try:
            await wait_until(lambda: producer.check_statistics().failed)
            await wait_all_tasks_blocked()
            assert [each() for each in held] == [None]
        finally:
            gc.enable()


async def test_a_checker_that_answers_late_is_heard(autojump_clock: MockClock) -> None:
    started = []

    async def check(message: MessageExt) -> LocalTransactionState:
        started.append(message.transaction_id)
        await trio.sleep(70)  # two more questions come meanwhile
        return COMMIT

    got = Recorder()
    async with world() as w, w.consumer() as consumer, transactions(w, check, executor=hesitate) as producer:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        await producer.send_in_transaction(Message("Orders", b"x"))
        await got.wait_count(1, within=120)
        await trio.sleep(120)
        assert len(started) == 1
        assert got.bodies == {b"x": 1}


async def test_checkers_that_hang_keep_their_workers_and_no_more(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    hung, checked = [], []

    async def check(message: MessageExt) -> LocalTransactionState:
        if message.body == b"hang":
            hung.append(message)
            await trio.sleep_forever()
        checked.append(message.body)
        return COMMIT

    limits = {"check_thread_pool_max_size": 2, "check_request_hold_max": 5}
    async with world() as w, transactions(w, check, executor=hesitate, **limits) as producer:
        await producer.send_in_transaction(Message("Orders", b"hang"))
        await producer.send_in_transaction(Message("Orders", b"other"))
        await trio.sleep(80)  # until the broker asks, and until the producer has looked for long enough
        assert (len(hung), checked) == (1, [b"other"])
        statistics = producer.check_statistics()
        assert (statistics.running, statistics.waiting) == (1, 0)
        assert "the checker has not returned for the transaction" in caplog.text
        await producer.send_in_transaction(Message("Orders", b"hang"))
        for number in range(8):
            await producer.send_in_transaction(Message("Orders", b"%d" % number))
        await trio.sleep(70)
        statistics = producer.check_statistics()
        assert (statistics.running, statistics.waiting) == (2, 5)
        assert statistics.dropped > 0
        assert "dropped a transaction check from" in caplog.text
        began = trio.current_time()
    assert trio.current_time() - began < 1  # closing does not wait for them


# --- producers that come and go ------------------------------------------------------------------------------


async def test_TX2_a_producer_that_dies_leaves_its_transactions_to_its_group(autojump_clock: MockClock) -> None:
    book, got = Book(), Recorder()
    async with world() as w, w.consumer() as consumer, transactions(w, book.check, topics=["Orders"]) as other:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        cable = Cable(w.cluster.network)

        async def execute(message: Message, arg: Any) -> LocalTransactionState:
            book.states[message.transaction_id] = COMMIT
            cable.cut()
            return COMMIT

        with trio.move_on_after(2):
            async with transactions(w, unsure, network=cable) as mortal:
                result = await mortal.send_in_transaction(Message("Orders", b"x"), execute)
                assert result.local_state is COMMIT  # which nobody but the book knows
        assert got.messages == []
        await got.wait_count(1)
        assert book.checked == [result.transaction_id]
        assert other.check_statistics().answered == 1


async def test_TX2_a_restarted_producer_is_asked_before_it_sends(autojump_clock: MockClock) -> None:
    book, got = Book(UNKNOWN), Recorder()
    async with world() as w, w.consumer() as consumer:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        async with transactions(w, unsure) as first:
            result = await first.send_in_transaction(Message("Orders", b"x"), book.execute)
        book.states[result.transaction_id] = COMMIT
        async with transactions(w, book.check):
            await trio.sleep(40)
            assert book.checked == []  # it knows no broker
        async with transactions(w, book.check, topics=["Orders"]):
            await got.wait_count(1)


async def test_a_broker_that_comes_back_can_ask_again(autojump_clock: MockClock) -> None:
    book, got = Book(UNKNOWN), Recorder()
    async with world() as w, w.consumer() as consumer, transactions(w, book.check) as producer:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        result = await producer.send_in_transaction(Message("Orders", b"x"), book.execute)
        await w.cluster.kill_broker(0)
        await w.cluster.start_broker(0)
        book.states[result.transaction_id] = COMMIT
        await got.wait_count(1, within=70)
        assert got.bodies == {b"x": 1}


async def test_two_producers_of_two_groups_on_one_client(autojump_clock: MockClock) -> None:
    books = [Book(UNKNOWN), Book(UNKNOWN)]
    async with world() as w, transactions(w, books[0].check, "one") as first:
        async with transactions(w, books[1].check, "two", namesrv=(), network=None, client=first.client) as second:
            mine = await first.send_in_transaction(Message("Orders", b"x"), books[0].execute)
            yours = await second.send_in_transaction(Message("Orders", b"x"), books[1].execute)
            await trio.sleep(35)
            assert books[0].checked == [mine.transaction_id]
            assert books[1].checked == [yours.transaction_id]


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [{"delay_level": 3}, {"delay": 5.0}, {"deliver_at": 1_900_000_000_000}])
async def test_a_message_in_a_transaction_has_no_delay(autojump_clock: MockClock, later: dict[str, Any]) -> None:
    async with world() as w, transactions(w, unsure, executor=commit) as producer:
        with pytest.raises(ConfigError, match="cannot have delay_level, delay or deliver_at"):
            await producer.send_in_transaction(Message("Orders", b"x", **later))
        assert await open_halves(w) == 0


async def test_functions_that_cannot_be_used(autojump_clock: MockClock) -> None:
    async with world() as w:
        makers: list[Callable[[], Any]] = [
            lambda: transactions(w, None),
            lambda: transactions(w, "check"),
            lambda: transactions(w, lambda: COMMIT),
            lambda: transactions(w, unsure, executor=lambda message: COMMIT),
            lambda: transactions(w, unsure, topics="Orders"),
            lambda: transactions(w, unsure, topics=["no such name"]),
            lambda: transactions(w, unsure, check_thread_pool_max_size=0),
        ]
        for make in makers:
            with pytest.raises(ConfigError):
                make()
        async with transactions(w, unsure) as producer:
            sends: list[Callable[[], Awaitable[Any]]] = [
                lambda: producer.send_in_transaction(Message("Orders", b"x")),
                lambda: producer.send_in_transaction(Message("Orders", b"x"), lambda message: COMMIT),
                lambda: producer.send_in_transaction("x"),  # type: ignore[arg-type]
            ]
            for send in sends:
                with pytest.raises(ConfigError):
                    await send()
        with pytest.raises(ClientClosedError):
            await producer.send_in_transaction(Message("Orders", b"x"), commit)
        with pytest.raises(ClientClosedError):
            producer.check_statistics()


async def test_a_broker_that_takes_no_transactions(autojump_clock: MockClock) -> None:
    called = []

    async def execute(message: Message, arg: Any) -> LocalTransactionState:
        called.append(message)
        return COMMIT

    async with world(reject_transaction_message=True) as w, transactions(w, unsure, executor=execute) as producer:
        with pytest.raises(SendError, match="sending transaction message is forbidden"):
            await producer.send_in_transaction(Message("Orders", b"x"))
        assert called == []


async def test_questions_that_make_no_sense_are_ignored(autojump_clock: MockClock) -> None:
    from rocketpy.wire.command import RemotingCommand

    book = Book()
    async with world() as w, transactions(w, book.check, topics=["Orders"], executor=commit) as producer:
        await producer.send_in_transaction(Message("Orders", b"x"))
        (broker,) = w.cluster.brokers
        await wait_until(lambda: broker.clients.producers.clients("orders"))
        (member,) = broker.clients.producers.clients("orders")
        channel: Any = member.channel
        fields = {"tranStateTableOffset": "0", "commitLogOffset": "0"}
        for ext, body in (({}, b""), (fields, b""), (fields, b"\0" * 100), (fields, b"\x7f\xff\xff\xff")):
            channel.send_oneway(RemotingCommand.oneway(RequestCode.CHECK_TRANSACTION_STATE, ext, body))
        await trio.sleep(1)
        assert book.checked == []
        assert (await producer.send_in_transaction(Message("Orders", b"x"))).local_state is COMMIT
