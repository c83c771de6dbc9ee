"""What must not be overtaken stays at the head of its queue: dead letters that no broker takes, and what was pulled for
a listener of the other kind."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rocketpy.consumer.push import PushConsumer
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.results import ConsumeResult, MessageModel
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.send import SendMessageRequestHeader
from rocketpy.wire.properties import decode_properties
from tests.consumer import brokers as scripted
from tests.system.consuming import Recorder, wait_until, world
from tests.system.test_orderly_locks import Locks, orderly

QUEUE = scripted.queue()
SETTINGS: dict[str, Any] = {"max_reconsume_times": 0, "suspend_current_queue_time": 1.0}


class Graveyard:
    """Takes messages, dead letters here, or refuses them; remembers which it took, by their unique ids."""

    def __init__(self, broker: scripted.PullBroker) -> None:
        self.refused: set[str] = set()
        self.refusals = 0
        self.taken: list[str] = []
        self._take = broker.send
        broker.on(RequestCode.SEND_MESSAGE_V2, self.send)

    def send(self, connection: Any, request: RemotingCommand) -> RemotingCommand:
        header = SendMessageRequestHeader.from_short_ext(request.ext_fields)
        its = decode_properties(header.properties or "")["UNIQ_KEY"]
        if its in self.refused:
            self.refusals += 1
            return request.answer(ResponseCode.SYSTEM_ERROR, "as told")
        self.taken.append(its)
        return self._take(connection, request)


def commit_offset(consumer: PushConsumer) -> int:
    return consumer.status().queues[QUEUE].commit_offset


# --- dead letters that no broker takes ---------------------------------------------------------------------


async def test_OR4_a_dead_letter_that_no_broker_takes_holds_up_its_queue_until_one_does(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted.world() as w:
        Locks(w.broker)
        graveyard = Graveyard(w.broker)
        graveyard.refused = {"U000001"}
        w.broker.store(4)
        got = Recorder(lambda message: ConsumeResult.RETRY if message.queue_offset == 1 else None)
        async with orderly(w, got, **SETTINGS) as consumer:
            await got.wait_count(8)
            assert [message.queue_offset for message in got.messages] == [0, *[1] * 7]
            assert all(later - earlier >= 1 for earlier, later in pairwise(got.times[1:]))
            assert (commit_offset(consumer), consumer.statistics().sent_back) == (1, 0)
            assert graveyard.refusals >= 6
            assert "no broker takes" in caplog.text

            graveyard.refused.clear()
            await wait_until(lambda: commit_offset(consumer) == 4)
            await trio.sleep(10)
            offsets = [message.queue_offset for message in got.messages]
            assert offsets == [0, *[1] * (len(offsets) - 3), 2, 3]
            assert graveyard.taken == ["U000001"]
            assert consumer.statistics().sent_back == 1
            assert w.broker.offsets["Orders", 0] == 4


async def test_OR4_of_a_batch_of_dead_letters_those_that_no_broker_takes_stay_in_order(
    autojump_clock: MockClock,
) -> None:
    batches: list[list[int]] = []

    def listener(messages: list[MessageExt]) -> object:
        batches.append([message.queue_offset for message in messages])
        return ConsumeResult.RETRY if messages[0].queue_offset < 4 else None

    async with scripted.world() as w:
        Locks(w.broker)
        graveyard = Graveyard(w.broker)
        graveyard.refused = {"U000001", "U000003"}
        w.broker.store(6)
        async with orderly(w, listener, consume_message_batch_max_size=4, **SETTINGS) as consumer:
            await wait_until(lambda: len(batches) == 4)
            assert batches == [[0, 1, 2, 3], [1, 3], [1, 3], [1, 3]]
            assert graveyard.taken == ["U000000", "U000002"]
            assert commit_offset(consumer) == 1
            graveyard.refused = {"U000003"}
            await wait_until(lambda: batches[-1] == [3])
            assert commit_offset(consumer) == 3
            graveyard.refused.clear()
            await wait_until(lambda: commit_offset(consumer) == 6)
        assert [batch for batch in batches if batch not in ([1, 3], [3])] == [[0, 1, 2, 3], [4, 5]]
        assert batches[-1] == [4, 5]
        assert graveyard.taken == ["U000000", "U000002", "U000001", "U000003"]
        assert w.broker.offsets["Orders", 0] == 6


async def test_OR4_a_dead_letter_that_no_broker_took_is_not_lost_when_the_consumer_ends(
    autojump_clock: MockClock,
) -> None:
    async with scripted.world() as w:
        Locks(w.broker)
        graveyard = Graveyard(w.broker)
        graveyard.refused = {"U000000"}
        w.broker.store(2)
        got = Recorder(lambda message: ConsumeResult.RETRY if message.queue_offset == 0 else None)
        async with orderly(w, got, **SETTINGS):
            await got.wait_count(3)
        assert w.broker.offsets.get(("Orders", 0), 0) == 0
        graveyard.refused.clear()
        again = Recorder()
        async with orderly(w, again, **SETTINGS):
            await again.wait_count(2)
        assert [message.queue_offset for message in again.messages] == [0, 1]
        assert graveyard.taken == []


async def test_OR4_a_retry_that_names_no_origin_does_not_wait_for_a_dead_letter_on_its_way(
    autojump_clock: MockClock,
) -> None:
    asked: list[tuple[Any, RemotingCommand]] = []

    async with scripted.world() as w:
        Locks(w.broker)
        take = w.broker.send

        def hang(connection: Any, request: RemotingCommand) -> RemotingCommand | None:
            if "U000000" in str(request.ext_fields) and not asked:
                asked.append((connection, request))
                return None
            return take(connection, request)

        w.broker.on(RequestCode.SEND_MESSAGE_V2, hang)
        w.broker.store(1)
        async with orderly(w, Recorder(lambda message: ConsumeResult.RETRY), **SETTINGS) as consumer:
            await wait_until(lambda: asked)
            w.broker.store(1, topic="%RETRY%billing", properties={"UNIQ_KEY": "nameless"})
            await trio.sleep(1)
            assert [each["UNIQ_KEY"] for each in w.broker.sent_properties()] == ["nameless"]
            connection, request = asked[0]
            connection.send_answer(request, take(connection, request))
            await trio.sleep(6)
            assert {each.commit_offset for each in consumer.status().queues.values()} == {1}


# --- a listener of the other kind --------------------------------------------------------------------------


class TwoKinds:
    """A plain listener and an async one that takes its time; both notice when the other is in the queue."""

    def __init__(self) -> None:
        self.inside: set[int] = set()
        self.got: defaultdict[int, list[int]] = defaultdict(list)
        self.kinds: defaultdict[int, set[str]] = defaultdict(set)
        self.wrong: list[str] = []

    def _enter(self, message: MessageExt, kind: str) -> None:
        if message.queue_id in self.inside:
            self.wrong.append(f"{kind} at {message.queue_id}:{message.queue_offset}")
        self.inside.add(message.queue_id)
        self.got[message.queue_id].append(message.queue_offset)
        self.kinds[message.queue_id].add(kind)

    async def waiting(self, message: MessageExt) -> None:
        self._enter(message, "async")
        await trio.sleep(0.2)
        self.inside.discard(message.queue_id)

    def plain(self, message: MessageExt) -> None:
        self._enter(message, "plain")
        self.inside.discard(message.queue_id)


@pytest.mark.slow
async def test_OR1_a_listener_of_the_other_kind_takes_over_in_order_and_loses_nothing(
    autojump_clock: MockClock,
) -> None:
    async with world(queues=2) as w:
        both = TwoKinds()
        listeners = [both.plain, both.waiting]
        async with orderly(w, both.waiting) as consumer:  # type: ignore[arg-type]
            for number in range(12):
                await w.send(10, start=10 * number)
                await trio.sleep(0.3)
                consumer.subscribe("Orders", listeners[number % 2])
            await wait_until(lambda: sum(map(len, both.got.values())) >= 120, within=200)
            await trio.sleep(30)
            assert both.wrong == []
            assert both.got == {0: list(range(60)), 1: list(range(60))}
            assert both.kinds == {0: {"plain", "async"}, 1: {"plain", "async"}}
            assert {
                each.commit_offset for queue, each in consumer.status().queues.items() if queue.topic == "Orders"
            } == {60}
            assert consumer.status().errors == {}


async def test_OR1_in_a_broadcast_a_listener_of_the_other_kind_takes_over_in_order(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with world(queues=1) as w:
        both = TwoKinds()
        kept: dict[str, Any] = {"message_model": MessageModel.BROADCASTING, "local_offset_store_dir": tmp_path}
        async with orderly(w, both.waiting, **kept) as consumer:  # type: ignore[arg-type]
            for number in range(2):
                await w.send(10)
                await trio.sleep(0.3)
                consumer.subscribe("Orders", [both.plain, both.waiting][number % 2])
            await wait_until(lambda: sum(map(len, both.got.values())) == 20, within=60)
            await trio.sleep(6)
            assert both.wrong == []
            assert both.got == {0: list(range(20))}
            assert both.kinds == {0: {"plain", "async"}}
            assert {each.commit_offset for each in consumer.status().queues.values()} == {20}
            assert consumer.status().errors == {}


# --- a listener that replaces another of its kind --------------------------------------------------------------


@pytest.mark.parametrize("model", [MessageModel.CLUSTERING, MessageModel.BROADCASTING])
async def test_OR1_a_listener_that_replaces_one_gets_the_message_that_holds_up_the_queue(
    autojump_clock: MockClock, tmp_path: Path, model: MessageModel
) -> None:
    old, new = Recorder(lambda message: ConsumeResult.RETRY), Recorder()
    async with scripted.world() as w:
        Locks(w.broker)
        w.broker.store(3)
        kept: dict[str, Any] = {"message_model": model, "local_offset_store_dir": tmp_path}
        async with orderly(w, old, **kept) as consumer:
            await old.wait_count(2)
            consumer.subscribe("Orders", new)
            await new.wait_count(3, within=20)
            await trio.sleep(6)
            assert {message.queue_offset for message in old.messages} == {0}
            assert [message.queue_offset for message in new.messages] == [0, 1, 2]
            assert (commit_offset(consumer), consumer.status().errors) == (3, {})


async def test_OR1_a_listener_that_replaces_one_waits_until_that_has_returned(autojump_clock: MockClock) -> None:
    inside: list[str] = []
    wrong: list[int] = []
    got: list[tuple[str, int]] = []

    async def old(message: MessageExt) -> None:
        inside.append("old")
        await trio.sleep(8)
        inside.remove("old")
        got.append(("old", message.queue_offset))

    async def new(message: MessageExt) -> None:
        if inside:
            wrong.append(message.queue_offset)
        got.append(("new", message.queue_offset))

    async with scripted.world() as w:
        Locks(w.broker)
        w.broker.store(3)
        async with orderly(w, old) as consumer:
            await trio.sleep(2)
            consumer.subscribe("Orders", new)
            await trio.sleep(20)
            assert got == [("old", 0), ("new", 1), ("new", 2)]
            assert wrong == [], "the new one was at work beside the old one"
            assert commit_offset(consumer) == 3


async def test_OR1_a_listener_that_replaces_one_gets_what_comes_again_from_the_retry_topic(
    autojump_clock: MockClock,
) -> None:
    old, new = Recorder(lambda message: ConsumeResult.RETRY), Recorder()
    async with scripted.world() as w:
        Locks(w.broker)
        w.broker.store(2, topic="%RETRY%billing", properties={"RETRY_TOPIC": "Orders"})
        async with orderly(w, old) as consumer:
            await old.wait_count(2)
            consumer.subscribe("Bills", old)
            consumer.subscribe("Orders", new)
            await new.wait_count(2, within=20)
            await trio.sleep(6)
            assert [message.queue_offset for message in new.messages] == [0, 1]
            assert consumer.status().queues[scripted.queue(topic="%RETRY%billing")].commit_offset == 2


class Wrapping:
    """A listener that is a method, which is another object each time it is named."""

    def __init__(self) -> None:
        self.got: list[int] = []

    def consume(self, message: MessageExt | list[MessageExt]) -> None:
        self.got += [each.queue_offset for each in (message if isinstance(message, list) else [message])]


@pytest.mark.parametrize(
    "settings", [{}, {"consume_message_batch_max_size": 2}, {"before_consume": print}], ids=["bare", "lists", "hooks"]
)
async def test_OR1_a_listener_that_gets_another_filter_keeps_its_queue(
    autojump_clock: MockClock, settings: dict[str, Any]
) -> None:
    listener, revoked = Wrapping(), list[MessageQueue]()
    async with scripted.world() as w:
        Locks(w.broker)
        w.broker.store(3)
        async with orderly(w, listener.consume, on_revoked=revoked.extend, **settings) as consumer:
            await wait_until(lambda: len(listener.got) == 3)
            consumer.subscribe("Orders", listener.consume, tags="paid")
            await trio.sleep(30)
            assert (listener.got, revoked) == ([0, 1, 2], [])
            consumer.subscribe("Orders", Wrapping().consume, tags="paid")
            await trio.sleep(30)
            assert len(revoked) == 1


@pytest.mark.parametrize("model", [MessageModel.CLUSTERING, MessageModel.BROADCASTING])
async def test_OR1_a_listener_may_be_replaced_while_the_consumer_closes(
    autojump_clock: MockClock, tmp_path: Path, model: MessageModel
) -> None:
    new = Recorder()

    async def old(message: MessageExt) -> None:
        await trio.sleep(3)
        consumer.subscribe("Orders", new)
        await trio.sleep(1)

    async with scripted.world() as w:
        Locks(w.broker)
        w.broker.store(3)
        kept: dict[str, Any] = {"message_model": model, "local_offset_store_dir": tmp_path}
        async with orderly(w, old, **kept) as consumer:
            await trio.sleep(2)
        assert (new.messages, commit_offset(consumer)) == ([], 1)
