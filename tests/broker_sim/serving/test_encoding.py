"""Bodies written in steps are the bodies that one call writes."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import pytest

from rocketpy.errors import BrokerError
from rocketpy.message import MessageQueue
from rocketpy.wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rocketpy.wire.bodies.locks import LockBatchResponseBody
from rocketpy.wire.bodies.offsets import MessageQueueForC, ResetOffsetBody, ResetOffsetBodyForC
from rocketpy.wire.json_body import Body
from rocketpy.wire.lenient_json import write_json
from rocketpy.wire.steps import run_steps
from rocketpy_broker_sim.broker.tables.offsets import ConsumerOffsetTable
from rocketpy_broker_sim.broker.tables.persist import Entries, pretty_steps, pretty_text
from rocketpy_broker_sim.broker.tables.subscriptions import SubscriptionGroupTable
from rocketpy_broker_sim.broker.tables.topics import TopicTable
from rocketpy_broker_sim.config import BrokerConfig
from rocketpy_broker_sim.serving import encoding
from rocketpy_broker_sim.serving.encoding import encode_steps
from rocketpy_broker_sim.store.disk.memory import MemoryStorage


def groups(count: int) -> dict[str, SubscriptionGroupConfig]:
    return {f"g{n}": SubscriptionGroupConfig(group_name=f"g{n}", retry_max_times=n) for n in range(count)}


@pytest.mark.parametrize("count", [0, 1, encoding.STRETCH, encoding.STRETCH + 1, 200])
def test_a_body_written_in_steps_is_that_of_one_call(count: int) -> None:
    bodies: list[Body] = [
        SubscriptionGroupWrapper(
            subscription_group_table=groups(count), forbidden_table={f"g{n}": {"T": 4} for n in range(count)}
        ),
        ResetOffsetBody(offset_table={MessageQueue("T", "broker-a", n): n * n for n in range(count)}),
        ResetOffsetBodyForC(
            offset_table=[MessageQueueForC(topic="T", broker_name="b", queue_id=n, offset=n) for n in range(count)]
        ),
    ]
    for body in bodies:
        assert run_steps(encode_steps(body)) == body.encode()
    queues = {MessageQueue("T", "broker-a", n) for n in range(count)}
    held = run_steps(encode_steps(LockBatchResponseBody(lock_ok_mq_set=queues)))
    assert LockBatchResponseBody.decode(held).lock_ok_mq_set == queues


def forbidding(*counts: int) -> dict[str, dict[str, int]]:
    return {f"g{number}": {f"T{topic}": 4 for topic in range(count)} for number, count in enumerate(counts)}


@pytest.mark.parametrize(
    "counts",
    [(17,), (0, 17, 1), (16, 16), (0, 256), (257, 0), (256, 257, 512), (1000, *[1] * 40, 513), (*[1] * 15, 300, 0, 2)],
)
def test_tables_in_a_table_are_written_in_steps_as_in_one_call(counts: tuple[int, ...]) -> None:
    body = SubscriptionGroupWrapper(subscription_group_table={}, forbidden_table=forbidding(*counts))
    assert run_steps(encode_steps(body)) == body.encode()


def test_no_step_writes_much_of_a_table_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def counting(value: Any) -> str:
        text = write_json(value)
        written.append(text.count(":"))
        return text

    monkeypatch.setattr(encoding, "write_json", counting)
    body = SubscriptionGroupWrapper(subscription_group_table={}, forbidden_table=forbidding(5000, 300, 1))
    steps, most = encode_steps(body), 0
    while True:
        written.clear()
        try:
            next(steps)
        except StopIteration:
            break
        most = max(most, sum(written))
    assert most <= 2 * encoding.STRETCH**2


def test_a_body_that_fits_no_frame_is_refused_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "MOST_ENCODED", 10_000)
    steps = encode_steps(SubscriptionGroupWrapper(subscription_group_table=groups(1000)))
    with pytest.raises(BrokerError, match="in pages"):
        run_steps(steps)


def test_a_file_written_in_steps_is_that_of_one_call() -> None:
    value = {"b": {"x" * n: {"n": n, "none": {}, "list": [n, "é"]} for n in range(100)}, "c": {1: 2, 3: 4}, "d": 'a"b'}
    expected = '{\n\t"table":{\n\t\t"entry":' + pretty_text(value) + "\n\t}\n}"
    for large in (value["b"], Entries(value["b"].items())):
        entry = Entries({**value, "b": large}.items())
        assert run_steps(pretty_steps({"table": Entries([("entry", entry)])})).decode() == expected
    assert run_steps(pretty_steps({"a": Entries([])})) == b'{\n\t"a":{}\n}'
    numbers = ",".join(f"{n}:{n}" for n in range(99))
    assert run_steps(pretty_steps({"a": {n: n for n in range(99)}})).decode() == '{\n\t"a":{' + numbers + "\n\t}\n}"


def longest_share(steps: Generator[None, None, bytes]) -> float:
    """Processor time of the longest step, as a share of all."""
    longest = total = 0.0
    while True:
        began = time.thread_time()
        ended = next(steps, None) is None and steps.gi_frame is None
        took = time.thread_time() - began
        longest, total = max(longest, took), total + took
        if ended:
            return longest / total


@pytest.mark.parametrize("kind", ["groups", "topics", "offsets"])
def test_no_step_of_writing_a_table_is_a_large_part_of_it(kind: str) -> None:
    config, storage = BrokerConfig(), MemoryStorage()
    if kind == "groups":
        table = SubscriptionGroupTable(config, storage)
        table.put_all(groups(5000).values())
    elif kind == "topics":
        table = TopicTable(config, storage)
        for n in range(5000):
            table.create_retry(f"%RETRY%g{n}", 1)
    else:
        table = ConsumerOffsetTable(config, storage)
        for n in range(50_000):
            table.commit(f"g{n % 5}", "T", n, n)
    assert min(longest_share(table.encode_steps()) for _ in range(3)) < 0.2


def test_only_what_changed_of_the_groups_is_worked_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    table = SubscriptionGroupTable(BrokerConfig(), MemoryStorage())
    table.put_all(groups(100).values())
    first = table.encode()
    calls = 0
    to_json = SubscriptionGroupConfig.to_json

    def counted(group: SubscriptionGroupConfig) -> dict[str, object]:
        nonlocal calls
        calls += 1
        return to_json(group)

    monkeypatch.setattr(SubscriptionGroupConfig, "to_json", counted)
    version = table.data_version
    assert table.encode() == first
    assert calls == 0
    table.put(SubscriptionGroupConfig(group_name="g7", consume_enable=False))
    again = table.encode()
    assert calls == 1
    assert table.data_version != version
    read = SubscriptionGroupTable(BrokerConfig(), MemoryStorage())
    read.decode(again)
    assert read.all() == table.all()
    table.delete("g7")
    table.put(SubscriptionGroupConfig(group_name="g7"))
    read.decode(table.encode())
    assert read.get("g7") == SubscriptionGroupConfig(group_name="g7")
