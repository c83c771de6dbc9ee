"""Commits that are taken a run at a time: stored byte for byte as one by one, each once, and taken back together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import wall_clock
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.send_layout import SendReader
from rocketpy.wire.serialize import decode_command
from rocketpy_broker_sim.broker.runs.commit_runs import CommitRuns
from rocketpy_broker_sim.broker.transactions.window import Mark
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client
from tests.broker_sim.broker.test_plain_runs import BORN, KEPT, STORED, First, files
from tests.broker_sim.broker.test_turn import full
from tests.broker_sim.broker.transacting import COMMIT, HALF, ROLLBACK, UNKNOWN, Half, end_oneway, send_half, stored


class Runs:
    """How many commits each run had that were put together; 0 for one that was not."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        put = CommitRuns._put_together

        def counted(runs: CommitRuns, run: Any) -> int | None:
            found = put(runs, run)
            self.sizes.append(0 if found is None else len(run))
            return found

        patch.setattr(CommitRuns, "_put_together", counted)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


async def begin(client: Client) -> None:
    """Let the broker know the layout of ends, and make the queues."""
    for queue in range(4):
        end_oneway(client, await send_half(client, f"B{queue}", queue_id=queue))
        await wait_all_tasks_blocked()


async def test_commits_of_one_read_go_together(autojump_clock: MockClock, runs: Runs) -> None:
    async with broker_and_client() as (broker, client):
        await begin(client)
        runs.sizes.clear()
        halves = [await send_half(client, f"U{n}", b"%d" % n, queue_id=n % 4, TAGS="a") for n in range(12)]
        for half in reversed(halves):
            end_oneway(client, half)
        await wait_all_tasks_blocked()
        assert runs.sizes == [12]
        messages = stored(broker, "T", 1)[1:]
        assert [message.body for message in messages] == [b"9", b"5", b"1"]
        assert [message.prepared_transaction_offset for message in messages] == [halves[n].position for n in (9, 5, 1)]
        assert {message.sys_flag & 0xC for message in messages} == {8}
        assert broker.transactions.ledger.commits == 16
        assert broker.transactions.ledger.metrics.counts() == {"T": 0}
        await trio.sleep(100)
        assert (len(stored(broker, "T", 1)), client.received) == (4, [])


# --- one by one, and together ----------------------------------------------------------------------------

HALVES: list[dict[str, Any]] = [
    {}, {}, {}, {"queue_id": 1}, {"queue_id": 2, "TAGS": "a", "KEYS": "k1 k2"}, {"sys_flag": 4 | 1}, {"topic": "U"},
    {"DELAY": "1"}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "10"}, {"odd": "é"}, {"__CRC32#": "1"}, {"queue_id": 3},
]  # fmt: skip
WRONG: list[dict[str, Any]] = [
    {"producer_group": "other"}, {"commit_log_offset": 3}, {"tran_state_table_offset": 2}, {"commit_log_offset": -1},
    {"tran_state_table_offset": 1 << 40}, {"from_transaction_check": True},
]  # fmt: skip
ENDS = st.lists(
    st.tuples(
        st.integers(0, len(HALVES) - 1),
        st.sampled_from([COMMIT, COMMIT, COMMIT, ROLLBACK, UNKNOWN]),
        st.sampled_from([{}, {}, {}, {}, *WRONG]),
        st.booleans(),
    ),
    max_size=30,
)
IN_ORDER = [(n, COMMIT, {}, True) for n in range(len(HALVES))]


@pytest.mark.slow
@pytest.mark.parametrize("with_crc", [False, True])
@given(ends=ENDS)
@example(ends=IN_ORDER)
@example(ends=IN_ORDER[::-1] + IN_ORDER)
@example(ends=[(n, COMMIT, WRONG[n % len(WRONG)], True) for n in range(3)] + IN_ORDER)
@example(ends=[(0, COMMIT, {}, True), (1, ROLLBACK, {}, True), (1, COMMIT, {}, True), (2, COMMIT, {}, True)])
@settings(max_examples=20, deadline=None)
def test_what_commits_leave_is_what_they_leave_one_by_one(with_crc: bool, ends: Any) -> None:
    left, left_one_by_one = (
        trio.run(played, ends, with_crc, by_itself, clock=MockClock(autojump_threshold=0))
        for by_itself in (False, True)
    )
    assert left == left_one_by_one


async def played(ends: Any, with_crc: bool, by_itself: bool) -> dict[str, Any]:
    """What is left of ends that come at once, or with a pause behind some."""
    storage = MemoryStorage()
    with pytest.MonkeyPatch.context() as patch, wall_clock(lambda: 1_700_000_000_000):
        patch.setattr("rocketpy_broker_sim.broker.send_checks.random_source", First)
        for place in ("runs.plain_runs", "send_checks"):
            patch.setattr(f"rocketpy_broker_sim.broker.{place}.packed_address", lambda address: BORN)
        if by_itself:
            patch.setattr(SendReader, "read", lambda self, frame: decode_command(frame))
        async with broker_and_client(MemoryNetwork(), storage, enabled_append_prop_crc=with_crc) as (broker, client):
            broker.identity.store_host = STORED
            await begin(client)
            halves = [await send_half(client, f"U{n}", b"%d" % n, **dict(half)) for n, half in enumerate(HALVES)]
            for number, how, change, together in ends:
                end_oneway(client, halves[number], how, **change)
                if not together:
                    await wait_all_tasks_blocked()
            await wait_all_tasks_blocked()
            ledger = broker.transactions.ledger
            left = {
                "marks": [ledger.window.state(offset) for offset in range(20)],
                "pending": list(ledger.pending._offsets),
                "counts": (ledger.metrics.counts(), ledger.commits, ledger.rollbacks),
                "version": ledger.metrics.data_version.counter,
                "puts": sum(broker.storing.put_times._now.spans),
                "answers": client.received,
            }
        return left | {path: storage.read_bytes(path) for path in files(storage, *KEPT)}


# --- what goes wrong -------------------------------------------------------------------------------------


async def test_commits_that_the_disk_refuses_are_taken_back_together(autojump_clock: MockClock, runs: Runs) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (broker, client):
        await begin(client)
        halves = [await send_half(client, f"U{n}", b"%d" % n) for n in range(5)]
        ledger = broker.transactions.ledger
        for fault in (full, None):
            storage.fault = fault
            for half in halves:
                end_oneway(client, half)
            await wait_all_tasks_blocked()
            assert runs.sizes[-1] == 5
            mark = Mark.COMMITTED if fault is None else Mark.OPEN
            assert {ledger.window.state(half.offset) for half in halves} == {mark}
            assert ledger.metrics.counts() == {"T": 0 if fault is None else 5}
        assert [message.body for message in stored(broker, "T")[1:]] == [b"%d" % n for n in range(5)]
        assert (broker.storing.put_times.failed, ledger.commits) == (5, 9)


async def test_a_transaction_that_two_ends_name_by_its_copies_is_committed_once(
    autojump_clock: MockClock, runs: Runs
) -> None:
    async with broker_and_client() as (broker, client):
        await begin(client)
        first = await send_half(client, "U1")
        await send_half(client, "U2", CHECK_IMMUNITY_TIME_IN_SECONDS="1000")
        await trio.sleep(35)  # the check has copied it
        copy = copies(broker, "U1")[-1]
        assert copy.offset > first.offset
        end_oneway(client, copy)
        end_oneway(client, first)
        end_oneway(client, copy)
        await wait_all_tasks_blocked()
        assert runs.sizes[-1] == 0
        assert [message.wire_properties["UNIQ_KEY"] for message in stored(broker, "T")] == ["B0", "U1"]


def copies(broker: Any, unique_key: str) -> list[Half]:
    found: Iterator[Any] = iter(decode_messages(broker.store.reads.get(HALF, 0, 0, 32).records))
    return [
        Half(message.queue_offset, message.commit_log_offset, unique_key)
        for message in found
        if message.wire_properties["UNIQ_KEY"] == unique_key
    ]


async def test_threat_M11_a_run_of_ends_of_another_group(autojump_clock: MockClock, runs: Runs) -> None:
    async with broker_and_client() as (broker, client):
        await begin(client)
        halves = [await send_half(client, f"U{n}") for n in range(3)]
        for _ in range(4):  # the reader knows the layout by then
            for half in halves:
                end_oneway(client, half, producer_group="other")
            await wait_all_tasks_blocked()
        assert len(stored(broker, "T")) == 1
        for half in halves:
            end_oneway(client, half)
        await wait_all_tasks_blocked()
        assert len(stored(broker, "T")) == 4


@pytest.mark.parametrize("checks", [True, False])
async def test_a_run_of_commits_goes_on_beside_a_half_message_that_is_damaged(
    autojump_clock: MockClock, runs: Runs, checks: bool
) -> None:
    async with broker_and_client(check_crc_on_recover=checks) as (broker, client):
        await begin(client)
        halves = [await send_half(client, f"U{n}", b"body%d" % n) for n in range(5)]
        file = broker.store._log.row.files[0]
        file.write(b"X", file.read(0, broker.store.written_position).index(b"body2"))
        for half in halves:
            end_oneway(client, half)
        await wait_all_tasks_blocked()
        assert [message.body for message in stored(broker, "T")[1:]] == [b"body0", b"body1", b"body3", b"body4"]
        assert runs.sizes[-2:] == [2, 2]
