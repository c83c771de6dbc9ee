"""Half messages and their ends: consumers get a message only after its commit, and it is committed once."""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.seams import wall_clock
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.java_hash import tags_code
from rocketpy.wire.record import encode_record, head_layout, read_head
from rocketpy.wire.serialize import encode_command
from rocketpy_broker_sim.broker.processors.send import SendProcessor
from rocketpy_broker_sim.broker.tables.transaction_metrics import TransactionMetrics
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.put_result import Arrival
from tests.broker_sim.broker.kit import broker_and_client, send_fields
from tests.broker_sim.broker.transacting import (
    COMMIT,
    DISCARDED,
    HALF,
    OP,
    ROLLBACK,
    UNKNOWN,
    Half,
    end,
    end_fields,
    end_oneway,
    half_properties,
    questions,
    send_half,
    stored,
)
from tests.virtual_time import loop_time

EPOCH = 1_800_000_000_000


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(EPOCH)):
        yield


# --- the first half --------------------------------------------------------------------------------------


async def test_TX1_a_half_message_waits_where_no_consumer_sees_it(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client, "U1", b"body", queue_id=2, TAGS="a", sys_flag=4 | 1)
        assert (half.offset, half.transaction_id, half.queue_id) == (0, "U1", 2)
        assert "T" in broker.topics
        assert all(stored(broker, "T", queue) == [] for queue in range(4))
        (message,) = stored(broker, HALF)
        assert (message.commit_log_offset, message.queue_offset) == (half.position, 0)
        assert message.sys_flag & 0xC == 0
        properties = message.wire_properties
        assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("T", "2")
        assert (properties["TRAN_MSG"], properties["PGROUP"]) == ("true", "p")
        assert (properties["UNIQ_KEY"], properties["__transactionId__"]) == ("U1", "U1")
        assert properties["CLUSTER"] == "DefaultCluster"


async def test_TX1_a_commit_is_visible_once(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client, "U1", b"body", queue_id=2, TAGS="a")
        (before,) = stored(broker, HALF)
        assert (await end(client, half)).code == 0
        (message,) = stored(broker, "T", 2)
        assert message.body == b"body"
        assert message.sys_flag & 0xC == 8
        assert message.prepared_transaction_offset == half.position
        # With REAL_TOPIC and all, as Apache's broker leaves it.
        assert message.wire_properties == before.wire_properties
        assert (message.born_timestamp, message.born_host) == (before.born_timestamp, before.born_host)
        assert broker.store.reads.get("T", 2, 0, 1, match=lambda code: code == tags_code("a")).count == 1
        await trio.sleep(100)
        assert len(stored(broker, "T", 2)) == 1
        assert questions(client) == []


async def test_TX1_a_rollback_is_never_visible(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client)
        assert (await end(client, half, ROLLBACK)).code == 0
        await client.heartbeat()
        await trio.sleep(100)
        assert stored(broker, "T") == []
        assert questions(client) == []


async def test_TX1_ends_that_nobody_waits_for(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        first, second = await send_half(client, "U1"), await send_half(client, "U2")
        end_oneway(client, first)
        end_oneway(client, second, ROLLBACK)
        await wait_all_tasks_blocked()
        assert [message.wire_properties["UNIQ_KEY"] for message in stored(broker, "T")] == ["U1"]
        assert client.received == []


@pytest.mark.parametrize("how", [UNKNOWN, 4, 1, -8])
async def test_a_producer_that_does_not_know_is_not_answered(autojump_clock: MockClock, how: int) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client)
        for asked in (False, True):
            with trio.move_on_after(5) as waiting:
                await end(client, half, how, from_transaction_check=asked)
            assert waiting.cancelled_caught
        assert stored(broker, "T") == []
        assert (await end(client, half)).code == 0


async def test_transactions_are_refused_where_the_settings_say_so(autojump_clock: MockClock) -> None:
    async with broker_and_client(reject_transaction_message=True, broker_ip1="127.0.0.1") as (broker, client):
        answer = await client.send("T", b"x", half_properties())
        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == "the broker[127.0.0.1] sending transaction message is forbidden"
        assert (await client.send("T", b"x")).code == 0
        assert (stored(broker, HALF), len(stored(broker, "T"))) == ([], 1)


async def test_a_message_given_back_by_an_old_client_is_no_half_message(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.heartbeat("g", "T")
        answer = await client.send(
            "%RETRY%g", b"x", half_properties(DELAY="3"), reconsume_times=1, max_reconsume_times=16
        )
        assert answer.code == 0
        assert stored(broker, HALF) == []
        assert len(stored(broker, "SCHEDULE_TOPIC_XXXX", 2)) == 1


async def test_a_delay_begins_with_the_commit(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client, DELAY="3")  # clients take the level away; the broker need not lose the message
        await trio.sleep(20)
        assert (await end(client, half)).code == 0
        await trio.sleep(9)
        assert stored(broker, "T") == []
        await trio.sleep(2)
        assert [message.wire_properties["UNIQ_KEY"] for message in stored(broker, "T")] == ["U1"]


async def test_what_only_a_broker_says_is_not_taken_from_a_producer(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        lies = {"REAL_TOPIC": HALF, "REAL_QID": "9", "TRANSACTION_CHECK_TIMES": "14", "__transactionId__": "no"}
        half = await send_half(client, **lies, TRAN_PREPARED_QUEUE_OFFSET="77")
        (message,) = stored(broker, HALF)
        assert message.wire_properties["REAL_TOPIC"] == "T"
        assert message.wire_properties["__transactionId__"] == "U1"
        assert not message.wire_properties.keys() & {"TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET"}
        assert (await end(client, half)).code == 0
        assert len(stored(broker, "T")) == 1


# --- ends that are refused -------------------------------------------------------------------------------

NOT_FOUND = "Find prepared transaction message failed"


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"producer_group": "other"}, "The producer group wrong"),
        ({"tran_state_table_offset": 1}, "The transaction state table offset wrong"),
        ({"commit_log_offset": -1}, NOT_FOUND),
        ({"commit_log_offset": 1 << 40}, NOT_FOUND),
        ({"commit_log_offset": 3}, NOT_FOUND),
    ],
)
@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
async def test_threat_M11_an_end_of_another_message(
    autojump_clock: MockClock, change: dict[str, Any], remark: str, how: int
) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client)
        answer = await end(client, half, how, **change)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
        assert stored(broker, "T") == []
        assert (await end(client, half)).code == 0


async def test_threat_M11_a_committed_message_is_no_half_message(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client)
        await end(client, half)
        (message,) = stored(broker, "T")
        foreign = Half(message.queue_offset, message.commit_log_offset, "U1")
        answer = await end(client, foreign)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, NOT_FOUND)
        assert len(stored(broker, "T")) == 1


async def test_threat_M11_a_record_in_a_body_is_no_half_message(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await send_half(client)
        position = broker.store.written_position + head_layout(0).size
        await client.send("T", forged(position))
        record = broker.store.reads.read(position)
        assert read_head(record or b"").physical_offset == position  # it looks like one
        answer = await end(client, Half(0, position, "U9"))
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, NOT_FOUND)
        assert len(stored(broker, "T")) == 1


def forged(position: int) -> bytes:
    """A record as the log would have it, of a half message that leads to a topic of the system."""
    properties = half_properties("U9", REAL_TOPIC="SCHEDULE_TOPIC_XXXX", REAL_QID="0")
    return encode_record(
        topic=HALF.encode(),
        body=b"evil",
        properties=properties.encode(),
        queue_id=0,
        flag=0,
        queue_offset=0,
        physical_offset=position,
        sys_flag=0,
        born_timestamp=0,
        born_host=bytes(8),
        store_timestamp=EPOCH,
        store_host=bytes(8),
    )


@pytest.mark.parametrize("missing", ["producerGroup", "tranStateTableOffset", "commitLogOffset", "commitOrRollback"])
async def test_an_end_that_lacks_a_field(autojump_clock: MockClock, missing: str) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client)
        fields = end_fields(half)
        del fields[missing]
        with trio.fail_after(5):
            answer = await client.ask(RequestCode.END_TRANSACTION, fields)
        remark = f"EndTransactionRequestHeader: the field {missing} is missing"
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
        assert stored(broker, "T") == []
        assert (await end(client, half)).code == 0


# --- ends that come again --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [COMMIT, ROLLBACK])
async def test_an_end_that_comes_again_changes_nothing(autojump_clock: MockClock, how: int) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client)
        for _ in range(3):
            assert (await end(client, half, how)).code == 0
        other = await end(client, half, ROLLBACK if how == COMMIT else COMMIT)
        assert other.code == ResponseCode.SYSTEM_ERROR
        said = "was committed" if how == COMMIT else "was rolled back"
        assert other.remark == f"{NOT_FOUND}: the transaction {said}"
        assert len(stored(broker, "T")) == (1 if how == COMMIT else 0)


async def test_ends_in_one_chunk_commit_once(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client)
        for _ in range(5):
            end_oneway(client, half)
        await wait_all_tasks_blocked()
        assert len(stored(broker, "T")) == 1


async def test_an_end_of_what_was_passed_long_ago(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client)
        await end(client, half)
        await trio.sleep(35)  # the check has passed it
        answer = await end(client, half)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == f"{NOT_FOUND}: the transaction has ended, or was discarded"
        assert len(stored(broker, "T")) == 1


# --- the time that a message asks for ----------------------------------------------------------------------


async def test_TX4_a_late_direct_end_is_refused_and_an_answer_is_not(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client, CHECK_IMMUNITY_TIME_IN_SECONDS="10")
        await trio.sleep(10.5)
        for how in (COMMIT, ROLLBACK):
            assert (await end(client, half, how)).code == ResponseCode.ILLEGAL_OPERATION
        assert stored(broker, "T") == []
        assert (await end(client, half, from_transaction_check=True)).code == 0
        assert len(stored(broker, "T")) == 1


async def test_TX4_an_end_in_time_is_taken(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        short = await send_half(client, "U1", CHECK_IMMUNITY_TIME_IN_SECONDS="1")  # less than what all have
        plain = await send_half(client, "U2")
        await trio.sleep(5.5)
        assert (await end(client, short)).code == 0
        await trio.sleep(20)
        assert (await end(client, plain)).code == 0


# --- what is written ---------------------------------------------------------------------------------------


async def test_TX5_ends_are_gathered_and_written_together(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        halves = [await send_half(client, f"U{number}") for number in range(5)]
        for half in reversed(halves):
            end_oneway(client, half, ROLLBACK)
        await trio.sleep(2.9)
        assert stored(broker, OP) == []
        await trio.sleep(0.2)
        (op,) = stored(broker, OP)
        assert (op.body, op.tags) == (b"4,3,2,1,0,", "d")
        await trio.sleep(30)
        assert len(stored(broker, OP)) == 1


async def test_TX5_many_ends_are_written_at_once(autojump_clock: MockClock) -> None:
    async with broker_and_client(transaction_op_msg_max_size=4) as (broker, client):
        halves = [await send_half(client, f"U{number}") for number in range(5)]
        for half in halves:
            end_oneway(client, half)
        await wait_all_tasks_blocked()
        assert [op.body for op in stored(broker, OP)] == [b"0,1,", b"2,3,", b"4,"]


async def test_TX5_an_answer_tells_what_is_written(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        half = await send_half(client)
        await end(client, half)
        assert [op.body for op in stored(broker, OP)] == [b"0,"]


async def test_TX5_the_number_of_open_transactions(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        halves = [await send_half(client, f"U{number}") for number in range(4)]
        await end(client, halves[0])
        await end(client, halves[1], ROLLBACK)
        info = broker.runtime_info()
        assert info["openTransactions"] == "2"
        assert (info["transactionsCommitted"], info["transactionsRolledBack"]) == ("1", "1")
        await trio.sleep(3.5)
        assert b'"T":{' in storage.read_bytes("config/transactionMetrics")
    async with broker_and_client(storage=storage) as (broker, client):
        assert broker.runtime_info()["openTransactions"] == "2"


async def test_ends_that_the_disk_refuses_are_taken_back(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        half = await send_half(client)
        with storage.failing("pwrite", code=errno.ENOSPC, under="commitlog"):
            answer = await end(client, half)
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            end_oneway(client, half)
            await wait_all_tasks_blocked()
        assert stored(broker, "T") == []
        assert (await end(client, half)).code == 0
        assert len(stored(broker, "T")) == 1
        assert [op.body for op in stored(broker, OP)] == [b"0,"]


async def test_ends_that_wait_are_written_when_the_disk_takes_them_again(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        half = await send_half(client)
        end_oneway(client, half, ROLLBACK)
        await wait_all_tasks_blocked()
        with storage.failing("pwrite", code=errno.ENOSPC, under="commitlog"):
            await trio.sleep(10)
        await trio.sleep(2)
        assert [op.body for op in stored(broker, OP)] == [b"0,"]


async def test_a_half_message_for_one_queue_too_many_is_refused(autojump_clock: MockClock) -> None:
    async with broker_and_client(max_queues=30) as (broker, client):
        for number in range(40):
            answer = await client.send(f"T{number}", b"x", half_properties(f"U{number}"))
            if answer.code:
                break
        assert "as many queues with messages as it may" in (answer.remark or "")
        assert len(stored(broker, HALF)) == number


async def test_what_was_set_aside_can_be_asked_about_again(autojump_clock: MockClock) -> None:
    async with broker_and_client(transaction_check_max=1) as (broker, client):
        await client.heartbeat()
        half = await send_half(client)
        await trio.sleep(61)
        (aside,) = stored(broker, DISCARDED)
        late = await end(client, half)
        assert (late.code, late.remark) == (
            ResponseCode.SYSTEM_ERROR,
            f"{NOT_FOUND}: the transaction has ended, or was discarded",
        )
        assert len(questions(client)) == 1
        (asked, _) = questions(client)[0]
        for wrong in ("", "xyz", aside.offset_message_id[:-4] + "0003"):
            answer = await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": wrong})
            assert answer.code == ResponseCode.SYSTEM_ERROR
        answer = await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": aside.offset_message_id})
        assert answer.code == 0
        await client.heartbeat()
        await trio.sleep(30)
        assert len(questions(client)) == 2
        assert (await end(client, asked, from_transaction_check=True)).code == 0
        assert [message.wire_properties["UNIQ_KEY"] for message in stored(broker, "T")] == ["U1"]


async def test_sends_with_ends_between_them_are_put_in_one_go(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []
    take = SendProcessor.take

    def counting(self: SendProcessor, connection: Any, requests: Any) -> Any:
        runs.append(len(requests))
        return take(self, connection, requests)

    async with broker_and_client() as (broker, client):
        halves = [await send_half(client, f"U{number}") for number in range(4)]
        monkeypatch.setattr(SendProcessor, "take", counting)
        for half in halves:
            end_oneway(client, half)
            send = RemotingCommand(RequestCode.SEND_MESSAGE_V2, send_fields("Others"), b"x")
            send.opaque = client.connection.next_opaque()
            client.connection.send_frame(encode_command(send))
        await trio.sleep(1)
        assert runs == [4]
        assert [message.queue_offset for message in stored(broker, "Others")] == [0, 1, 2, 3]
        assert [message.wire_properties["UNIQ_KEY"] for message in stored(broker, "T")] == ["U0", "U1", "U2", "U3"]


async def test_counts_of_open_transactions_have_a_version_that_rises_with_each(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        metrics = broker.transactions.ledger.metrics
        before = metrics.data_version
        halves = [await send_half(client, f"U{number}") for number in range(3)]
        assert metrics.data_version.counter == before.counter + 3
        await end(client, halves[0])
        assert metrics.data_version.counter == before.counter + 4
        assert metrics.data_version == metrics.data_version
        assert metrics.data_version.timestamp == metrics._metrics["T"].time_stamp
        again = TransactionMetrics(MemoryStorage())
        (content,) = drive(metrics.encode_steps())
        again.decode(content)
        assert (again.data_version, again.counts()) == (metrics.data_version, {"T": 2})


async def test_half_messages_that_were_counted_before_the_start_are_not_counted_again(
    autojump_clock: MockClock,
) -> None:
    async with broker_and_client() as (broker, _):
        transactions = broker.transactions
        transactions._counted_from = 5
        halves = [b"REAL_TOPIC\x01%b\x02" % topic for topic in (b"T", b"T", b"T", b"U", b"T")]
        transactions.arrived(Arrival(HALF, 0, 8, [0] * 5, halves))  # from offset 3 on
        transactions.arrived(Arrival("T", 0, 8, [0] * 5, halves))
        assert transactions.ledger.metrics.counts() == {"T": 2, "U": 1}


def drive(steps: Generator[None, None, bytes]) -> list[bytes]:
    """What a generator returns, alone in a list."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return [stop.value]
