"""Directories of Apache's brokers after more has happened: written on, stopped, killed, cleaned of old files."""

from __future__ import annotations

import pytest

from rocketpy_broker_sim.store.put_result import GetMessageStatus
from tests.broker_sim.store.golden import NAMES, GoldenStore
from tests.broker_sim.store.helpers import message, put_all, read_queue
from tests.broker_sim.store.test_golden import check_messages

OLD_ENOUGH = ["4.9.7-clean", "5.3.3-clean", "5.3.3-killed"]
"""Those whose log has several files."""
COUNT = 120


def write_on(store, golden: GoldenStore, round_number: int) -> dict[tuple[str, int], list[bytes]]:
    """Send to every queue that has messages and to a new one, more than a log file holds."""
    queues = sorted({*golden.queues(), ("GS_OURS", 0)})
    size = golden.config.mapped_file_size_commit_log // COUNT
    sent: dict[tuple[str, int], list[bytes]] = {queue: [] for queue in queues}
    for n in range(COUNT):
        topic, queue_id = queues[n % len(queues)]
        body = b"%d-%d " % (round_number, n) * (size // 4)
        (result,) = put_all(store, [message(body, topic=topic, queue_id=queue_id)])
        assert result.queue_offset == store.reads.max_offset(topic, queue_id) - 1
        sent[topic, queue_id].append(body)
    return sent


@pytest.mark.slow
@pytest.mark.parametrize("end", ["close", "abandon"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_on_stays_with_what_was_there(name, end, tmp_path):
    golden = GoldenStore(name, tmp_path)
    ends, sent = golden.queues(), []
    for round_number in range(2):
        store = golden.open()
        sent.append(write_on(store, golden, round_number))
        getattr(store, end)()
    store = golden.open()
    check_messages(store, golden)
    for topic, queue_id in sent[0]:
        expected = [body for each in sent for body in each[topic, queue_id]]
        found = read_queue(store, topic, queue_id)
        old = ends.get((topic, queue_id), (0, 0))[1]
        assert [each.body for each in found[old:]] == expected
        assert [each.queue_offset for each in found] == list(range(old + len(expected)))
    store.close()
    assert not (golden.root / "abort").exists()


def clean(golden: GoldenStore, files: int) -> int:
    """Delete the oldest log files, and the queue files of which every record is gone, as a cleaning broker does."""
    size = golden.config.mapped_file_size_commit_log
    for number in range(files):
        (golden.root / "commitlog" / f"{number * size:020d}").unlink()
    per_file = golden.config.mapped_file_size_consume_queue // 20
    for topic, queue_id in golden.queues():
        folder = golden.root / "consumequeue" / topic / str(queue_id)
        gone = sum(position < files * size for position in positions(golden, topic, queue_id).values())
        if gone >= per_file and len(list(folder.iterdir())) > 1:
            (folder / f"{0:020d}").unlink()
    return files * size


def positions(golden: GoldenStore, topic: str, queue_id: int) -> dict[int, int]:
    """Where the messages of a queue stand in the log, by queue offset."""
    rows = (row for row in golden.messages if (row["topic"], row["queueId"]) == (topic, queue_id))
    return {row["queueOffset"]: row["physicalOffset"] for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("crashed", [False, True], ids=["stopped", "crashed"])
@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("name", OLD_ENOUGH)
def test_a_store_whose_oldest_files_were_cleaned_away(name, files, crashed, tmp_path):
    golden = GoldenStore(name, tmp_path)
    start = clean(golden, files)
    if crashed:
        (golden.root / "abort").touch()
    for _ in range(2):
        store = golden.open()
        assert store.reads.log_start == start
        assert store.written_position >= golden.facts["commitlog_end"]
        check_messages(store, golden)
        check_lowest_offsets(store, golden, start)
        write_on(store, golden, 0)
        store.close()


def check_lowest_offsets(store, golden: GoldenStore, start: int) -> None:
    for (topic, queue_id), (_, high) in golden.queues().items():
        kept = [offset for offset, position in positions(golden, topic, queue_id).items() if position >= start]
        low = store.reads.min_offset(topic, queue_id)
        assert low == min(kept, default=high), (topic, queue_id)
        if low:
            result = store.reads.get(topic, queue_id, low - 1, 32)
            assert (result.status, result.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, low)


@pytest.mark.parametrize("name", OLD_ENOUGH)
def test_queues_that_are_lost_beside_a_cleaned_log_keep_their_offsets(name, tmp_path):
    golden = GoldenStore(name, tmp_path)
    start = clean(golden, 1)
    for path in golden.root.glob("consumequeue/*/*/*"):
        path.unlink()
    store = golden.open()
    check_messages(store, golden)
    for topic, queue_id in golden.queues():
        kept = [offset for offset, position in positions(golden, topic, queue_id).items() if position >= start]
        ends = (min(kept), max(kept) + 1) if kept else (0, 0)
        assert (store.reads.min_offset(topic, queue_id), store.reads.max_offset(topic, queue_id)) == ends
    store.close()
