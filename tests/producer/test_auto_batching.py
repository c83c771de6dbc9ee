"""Messages that linger, on trio, against a broker that answers as told: when they are sent, and in which batch."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from rocketpy.client.transactions import half_of
from rocketpy.errors import (
    ClientClosedError,
    ConfigError,
    LocalProtocolError,
    MessageIllegalError,
    RequestTimeoutError,
    TooManyRequestsError,
    TopicNotFoundError,
)
from rocketpy.message import Message, MessageExt, MessageQueue
from rocketpy.message.reply import create_reply_message
from rocketpy.seams import wall_ms
from rocketpy.wire.batch import decode_batch
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.properties import decode_properties
from tests.producer.brokers import SendBroker

LINGER = 0.05


class BatchBroker(SendBroker):
    """Answers batches as brokers do, some time after they have come."""

    def __init__(self, name="broker-a", script=(), delay=0.0):
        super().__init__(name, script)
        self.delay = delay
        self.times = []
        self.next_offset = 0
        self.nursery = None

    def send(self, connection, request):
        self.times.append(trio.current_time())
        count = len(decode_batch(request.body)) if request.code == RequestCode.SEND_BATCH_MESSAGE else 1
        answer = super().send(connection, request)
        if answer is not None and answer.code == 0:
            first, self.next_offset = self.next_offset, self.next_offset + count
            answer.ext_fields["queueOffset"] = str(first)
            answer.ext_fields["msgId"] = ",".join(f"{n:032X}" for n in range(first, first + count))
        if not self.delay or answer is None:
            return answer
        self.nursery.start_soon(self.answer_later, connection, request, answer)
        return None

    async def answer_later(self, connection, request, answer):
        await trio.sleep(self.delay)
        connection.send_answer(request, answer)

    @property
    def frames(self):
        """The bodies in each frame."""
        return [
            [item.body for item in decode_batch(taken.body)] if taken.header.batch else [taken.body]
            for taken in self.taken
        ]


@pytest.fixture
async def slow(nursery):
    """A broker that answers after a second."""
    broker = BatchBroker(delay=1.0)
    broker.nursery = nursery
    return broker


async def gather(producer, messages, *, in_order=True, **options):
    """Send them from tasks that begin in order; the results."""
    results = [None] * len(messages)

    async def one(number, message):
        try:
            results[number] = await producer.send(message, **options)
        except Exception as error:  # noqa: BLE001  it is looked at
            results[number] = error

    async with trio.open_nursery() as nursery:
        for number, message in enumerate(messages):
            nursery.start_soon(one, number, message)
            if in_order:
                await trio.lowlevel.cancel_shielded_checkpoint()
    return results


def numbered(count, start=0, **options):
    return [Message("T", b"%d" % n, **options) for n in range(start, start + count)]


# --- what travels together, and when -------------------------------------------------------------------------


async def test_S17_tasks_that_send_at_once_share_a_frame(autojump_clock, opened):
    broker = BatchBroker()
    async with opened(broker, linger=LINGER) as (producer, _):
        await producer.send(Message("T", b"warm"))
        began = trio.current_time()
        results = [None] * 100

        async def one(number):
            results[number] = await producer.send(
                Message("T", b"%d" % number, tags=f"t{number % 3}", keys=[str(number)])
            )

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(one, number)
        assert trio.current_time() == began, "awaited messages do not linger for one another"
        assert [len(frame) for frame in broker.frames] == [1, 100]
        assert {result.queue_offset for result in results} == set(range(1, 101))
        assert len({result.message_id for result in results}) == 100
        assert all(result.offset_message_id == f"{result.queue_offset:032X}" for result in results)
        items = {item.body: item for item in decode_batch(broker.taken[1].body)}
        assert (
            items[b"7"].properties
            == f"WAIT\x01true\x02TAGS\x01t1\x02KEYS\x017\x02UNIQ_KEY\x01{results[7].message_id}\x02".encode()
        )


async def test_S17_while_one_is_under_way_the_others_wait_for_it_or_for_linger(autojump_clock, opened, slow):
    async with opened(slow, linger=LINGER) as (producer, _):
        await gather(producer, numbered(1))
        began = trio.current_time()
        async with trio.open_nursery() as tasks:
            tasks.start_soon(producer.send, Message("T", b"a"))
            await trio.sleep(0.01)
            for body in (b"b", b"c"):
                tasks.start_soon(producer.send, Message("T", body))
        assert slow.frames[1:] in ([[b"a"], [b"b", b"c"]], [[b"a"], [b"c", b"b"]])
        assert slow.times[2] - began == pytest.approx(0.01 + LINGER, abs=0.002)

        slow.delay = LINGER / 2
        slow.taken.clear()
        async with trio.open_nursery() as tasks:
            tasks.start_soon(producer.send, Message("T", b"a"))
            await trio.sleep(0.01)
            tasks.start_soon(producer.send, Message("T", b"b"))
        assert slow.times[4] - slow.times[3] == pytest.approx(LINGER / 2, abs=0.002), "the answer came before linger"


async def test_S17_a_batch_goes_when_it_is_full(autojump_clock, opened, slow):
    async with opened(slow, linger=LINGER, batch_max_bytes=10) as (producer, _):
        await gather(producer, numbered(1))
        await gather(producer, [Message("T", b"abc") for _ in range(10)])
        sizes = [len(frame) for frame in slow.frames[1:]]
        assert sum(sizes) == 10
        assert max(sizes) == 3, "never more than batch_max_bytes"
        assert slow.times[-1] - slow.times[1] <= LINGER + 0.001


async def test_S17_one_message_goes_as_it_would_without_others(autojump_clock, opened):
    broker = BatchBroker()
    async with opened(broker, linger=LINGER) as (producer, _):
        await producer.send(Message("T", b"x"))
        [taken] = broker.taken
        assert not taken.header.batch


async def test_S17_what_may_not_share_a_frame_does_not(autojump_clock, opened):
    broker = BatchBroker()
    async with opened(broker, linger=LINGER, compress_body_over=100) as (producer, world):
        world.route("%RETRY%g", broker)
        world.route("U", broker)
        messages = [
            Message("T", b"a"),
            Message("T", b"b"),
            Message("T", b"no wait", wait_store_ok=False),
            Message("U", b"another topic"),
            Message("T", b"level", delay_level=3),
            Message("%RETRY%g", b"retry"),
            Message("T", b"x" * 200),
        ]
        results = await gather(producer, messages)
        assert not [each for each in results if isinstance(each, Exception)]
        frames = sorted(broker.frames, key=len)
        assert len(frames[-1]) <= 2
        together = [set(frame) for frame in frames if len(frame) > 1]
        assert together in ([], [{b"a", b"b"}])
        [large] = [taken for taken in broker.taken if taken.header.sys_flag]
        assert large.header.sys_flag & 1, "a large body is compressed and goes alone"


async def test_S17_what_has_a_time_or_a_part_of_its_own_never_lingers(autojump_clock, opened):
    request = MessageExt("T", b"x")
    request.wire_properties.update({"CLUSTER": "c", "CORRELATION_ID": "1", "REPLY_TO_CLIENT": "a"})
    never = [
        Message("T", b"x", delay_level=3),
        Message("T", b"x", delay=1),
        Message("T", b"x", deliver_at=wall_ms() + 1000),
        half_of(Message("T", b"x"), "pg", "U1"),
        create_reply_message(request, b"x"),
        Message("%RETRY%g", b"x"),
    ]
    async with opened(BatchBroker(), linger=LINGER) as (producer, _):
        assert [producer.outside.head(message) for message in never] == [None] * len(never)
        for message in (Message("T", b"x"), Message("T", b"x", keys=["1", "2"], tags="t", sharding_key="k")):
            assert producer.outside.head(message) is not None


async def test_S17_a_message_that_is_compressed_joins_nobody(autojump_clock, opened, slow):
    async with opened(slow, linger=LINGER, compress_body_over=100) as (producer, _):
        await gather(producer, numbered(1))
        bodies = [b"a", b"b", b"x" * 200, b"c", b"y" * 200]
        await gather(producer, [Message("T", body) for body in bodies])
        compressed = [taken for taken in slow.taken if taken.header.sys_flag]
        assert [taken.header.batch for taken in compressed] == [False, False]
        assert sorted(body for frame in slow.frames[1:] for body in frame if len(body) == 1) == [b"a", b"b", b"c"]


async def test_S17_messages_that_differ_in_little_travel_as_all_others_do(autojump_clock, opened):
    broker = BatchBroker()
    async with opened(broker, linger=LINGER) as (producer, _):
        await producer.send(Message("T", b"warm"))
        flagged, one, two = (Message("T", body, tags="t") for body in (b"4", b"5", b"6"))
        flagged.flag = 7
        one.wire_properties["UNIQ_KEY"] = two.wire_properties["UNIQ_KEY"] = "X" * 32
        alike = [Message("T", b"%d" % number, tags="t") for number in range(3)]
        other = Message("T", b"7", tags="t", keys=["k"])
        for given in (
            alike,
            [*alike, Message("T", b"12", tags="t")],
            [*alike, flagged],
            [one, two],
            [*alike, one, other],
        ):
            broker.taken.clear()
            results = await gather(producer, given, in_order=False)
            [taken] = broker.taken
            items = {item.body: item for item in decode_batch(taken.body)}
            for message, result in zip(given, results, strict=True):
                properties = {**message.wire_properties, "UNIQ_KEY": result.message_id}
                assert items[message.body].flag == message.flag
                text = items[message.body].properties.decode()
                assert decode_properties(text) == properties
                assert text.count("UNIQ_KEY") == 1


async def test_S17_batches_are_never_compressed(autojump_clock, opened):
    broker = BatchBroker()
    async with opened(broker, linger=LINGER, compress_body_over=100) as (producer, _):
        await producer.send(Message("T", b"warm"))
        await gather(producer, [Message("T", b"y" * 90) for _ in range(50)])
        assert all(taken.header.sys_flag == 0 for taken in broker.taken)


async def test_S17_a_message_is_sent_as_it_was_when_it_was_given(autojump_clock, opened, slow):
    async with opened(slow, linger=LINGER) as (producer, _):
        await gather(producer, numbered(1))
        message = Message("T", b"before", keys=["k"])
        async with trio.open_nursery() as tasks:
            for _ in range(2):
                tasks.start_soon(producer.send, message)
            await trio.sleep(0.01)
            tasks.start_soon(producer.send, message)
            await trio.sleep(0.01)
            message.body, message.wire_properties["KEYS"] = b"after", "changed"
        assert slow.frames[-1] == [b"before"]


# --- order ---------------------------------------------------------------------------------------------------


async def test_S17_messages_of_a_sharding_key_keep_their_order(autojump_clock, opened, slow):
    slow.delay = 0.01
    async with opened(slow, linger=LINGER, batch_max_bytes=8) as (producer, _):
        results = await gather(
            producer, [Message("T", b"%03d" % n, sharding_key="k", tags=f"t{n % 2}") for n in range(40)]
        )
        assert [body for frame in slow.frames for body in frame] == [b"%03d" % n for n in range(40)]
        assert len({result.queue for result in results}) == 1
        assert len(slow.taken) < 40


async def test_S17_messages_to_a_queue_keep_their_order_whatever_differs(autojump_clock, opened, slow):
    slow.delay = 0.01
    queue = MessageQueue("T", "broker-a", 2)
    async with opened(slow, linger=LINGER) as (producer, _):
        messages = [Message("T", b"%03d" % n, wait_store_ok=n % 5 > 0) for n in range(40)]
        await gather(producer, messages, queue=queue)
        assert [body for frame in slow.frames for body in frame] == [b"%03d" % n for n in range(40)]
        assert {taken.header.queue_id for taken in slow.taken} == {2}
        for taken in slow.taken:
            waits = {int(item.body) % 5 > 0 for item in decode_batch(taken.body)} if taken.header.batch else {None}
            assert len(waits) == 1, "a frame is of one mind about waiting"


async def test_S17_a_selector_is_asked_once_for_each_message(autojump_clock, opened):
    broker = BatchBroker()
    async with opened(broker, linger=LINGER) as (producer, _):
        asked = []

        def select(queues, message, arg):
            asked.append(message.body)
            return queues[arg]

        await gather(producer, numbered(20), selector=select, arg=3)
        assert sorted(asked, key=int) == [b"%d" % n for n in range(20)]
        assert {taken.header.queue_id for taken in broker.taken} == {3}


# --- failures --------------------------------------------------------------------------------------------------


async def test_S17_every_message_of_a_batch_that_fails_has_an_error_of_its_own(autojump_clock, opened):
    broker = BatchBroker()
    async with opened(broker, linger=LINGER, retry_times_when_send_failed=0) as (producer, _):
        await producer.send(Message("T", b"warm"))
        broker.script = [ResponseCode.SYSTEM_ERROR]
        errors = await gather(producer, numbered(5), in_order=False)
        assert len({id(error) for error in errors}) == len(errors)
        assert {type(error) for error in errors} == {type(errors[0])}


async def test_S17_a_batch_is_tried_again_as_a_message_is(autojump_clock, opened):
    refused = []

    class Busy(BatchBroker):
        def send(self, connection, request):
            if request.code == RequestCode.SEND_BATCH_MESSAGE and not refused:
                refused.append((self, request.body))
                self.script = [ResponseCode.SYSTEM_BUSY]
            return super().send(connection, request)

    one, two = Busy("broker-a"), Busy("broker-b")
    async with opened(one, two, linger=LINGER) as (producer, _):
        await producer.send(Message("T", b"warm"))
        results = await gather(producer, numbered(30))
        assert not [each for each in results if isinstance(each, Exception)]
    ((first, body),) = refused
    other = two if first is one else one
    assert len(decode_batch(body)) > 1
    assert [taken.body for taken in first.taken].count(body) == 1
    assert [taken.body for taken in other.taken].count(body) == 1, "the same batch, at the other broker"


async def test_S17_of_a_batch_that_is_refused_for_what_it_holds_only_the_message_at_fault_fails(autojump_clock, opened):
    class Picky(BatchBroker):
        def send(self, connection, request):
            self.script = [ResponseCode.MESSAGE_ILLEGAL] if b"bad" in request.body else []
            return super().send(connection, request)

    broker = Picky()
    async with opened(broker, linger=LINGER) as (producer, _):
        await producer.send(Message("T", b"warm"))
        for queue in (None, MessageQueue("T", "broker-a", 1)):
            broker.taken.clear()
            messages = numbered(20)
            messages[13] = Message("T", b"bad")
            results = await gather(producer, messages, queue=queue)
            failed = [number for number, each in enumerate(results) if isinstance(each, Exception)]
            assert failed == [13]
            assert isinstance(results[13], MessageIllegalError)
            stored = [body for frame in broker.frames for body in frame if b"bad" not in frame]
            assert sorted(stored, key=int) == sorted((m.body for m in messages if m.body != b"bad"), key=int)
            if queue is not None:
                assert stored == [m.body for m in messages if m.body != b"bad"], "in order all the same"


async def test_S17_what_is_wrong_with_a_message_is_told_at_once_and_harms_no_other(autojump_clock, opened):
    broker = BatchBroker()
    async with opened(broker, linger=LINGER) as (producer, _):
        wrong = Message("T", b"x")
        wrong.wire_properties["a"] = "\ud800"
        long = Message("T", b"x", properties={"a": "x" * 40_000})
        results = await gather(producer, [*numbered(3), wrong, long, Message("a b", b"x")])
        assert [type(each) for each in results[3:]] == [LocalProtocolError, LocalProtocolError, ConfigError]
        assert not [each for each in results[:3] if isinstance(each, Exception)]


async def test_S17_a_topic_that_is_not_there_fails_with_and_without_a_key(autojump_clock, opened):
    async with opened(BatchBroker(), linger=LINGER, create_topic_key="none") as (producer, _):
        messages = [Message("Nowhere", b"x"), *(Message("Nowhere", b"x", sharding_key="k") for _ in range(3))]
        results = await gather(producer, messages, timeout=1)
        assert [type(each) for each in results] == [TopicNotFoundError] * 4


async def test_S17_a_message_is_not_held_beyond_its_timeout(autojump_clock, opened, slow):
    slow.delay = 100.0
    async with opened(slow, linger=1.0) as (producer, _):
        began = trio.current_time()
        results = await gather(producer, numbered(2), timeout=0.5)
        assert trio.current_time() - began == pytest.approx(0.5, abs=0.01)
        assert [type(each) for each in results] == [RequestTimeoutError] * 2
        # The second one of a queue waits in vain for the first.
        queue = MessageQueue("T", "broker-a", 0)
        began = trio.current_time()
        async with trio.open_nursery() as tasks:
            tasks.start_soon(partial(gather, producer, numbered(1), queue=queue, timeout=3))
            await trio.sleep(0.1)
            results = await gather(producer, numbered(1), queue=queue, timeout=0.5)
            assert trio.current_time() - began == pytest.approx(0.6, abs=0.01)
            assert isinstance(results[0], RequestTimeoutError)


def test_S17_a_linger_that_leaves_no_time_is_refused(opened):
    from rocketpy.config import ProducerConfig

    with pytest.raises(ConfigError, match="linger must be less than send_timeout"):
        ProducerConfig(group="g", linger=10)
    with pytest.raises(ConfigError, match="linger must be between"):
        ProducerConfig(group="g", linger=0)
    with pytest.raises(ConfigError, match="batch_max_bytes"):
        ProducerConfig(group="g", linger=0.01, batch_max_bytes=3 << 20)


# --- bounds and ends -------------------------------------------------------------------------------------------


async def test_S17_what_waits_is_bounded_in_bytes(autojump_clock, opened, slow):
    async with opened(slow, linger=LINGER, total_batch_max_bytes=10, batch_max_bytes=4) as (producer, _):
        await gather(producer, numbered(1))
        began = trio.current_time()
        results = await gather(producer, [Message("T", b"abcd") for _ in range(4)], timeout=2.5)
        assert not [each for each in results if isinstance(each, Exception)]
        assert trio.current_time() - began == pytest.approx(2, abs=0.2), "the third waited for the first"
        slow.delay = 2.0
        results = await gather(producer, [Message("T", b"abcd") for _ in range(4)], timeout=1)
        kinds = [type(each) for each in results]
        assert kinds == [RequestTimeoutError] * 2 + [TooManyRequestsError] * 2
        assert all(each.nothing_sent for each in results[2:])


async def test_S17_closing_sends_what_waits_and_answers_everybody(autojump_clock, opened, slow):
    outcomes = []

    async def send(producer, number):
        outcomes.append(await producer.send(Message("T", b"%d" % number)))

    async with trio.open_nursery() as nursery:
        async with opened(slow, linger=1.0) as (producer, _):
            for number in range(20):
                nursery.start_soon(send, producer, number)
                await trio.lowlevel.cancel_shielded_checkpoint()
            await trio.sleep(0.01)
            began = trio.current_time()
        assert trio.current_time() - began < 3
    assert len(outcomes) == 20


async def test_S17_an_exception_answers_everybody_too(autojump_clock, opened, slow):
    slow.delay = 100.0
    outcomes = []

    async def send(producer, number):
        with pytest.raises(ClientClosedError) as caught:
            await producer.send(Message("T", b"%d" % number), queue=MessageQueue("T", "broker-a", 0), timeout=90)
        outcomes.append(caught.value)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            with pytest.raises(ZeroDivisionError):  # noqa: PT012  the block is what is tested
                async with opened(slow, linger=0.01) as (producer, _):
                    for number in range(5):
                        nursery.start_soon(send, producer, number)
                        await trio.sleep(0.1)
                    raise ZeroDivisionError
    assert len(outcomes) == 5
    assert sum(each.nothing_sent for each in outcomes) == 4, "the first one is under way, and the others wait for it"


async def test_S17_a_send_that_is_cancelled_before_it_goes_is_not_sent(autojump_clock, opened, slow):
    async with opened(slow, linger=LINGER) as (producer, _):
        await gather(producer, numbered(1))
        async with trio.open_nursery() as tasks:
            tasks.start_soon(producer.send, Message("T", b"a"))
            await trio.sleep(0.01)
            tasks.start_soon(producer.send, Message("T", b"b"))
            with trio.move_on_after(0.01) as scope:
                await producer.send(Message("T", b"cancelled"))
            assert scope.cancelled_caught
        assert [body for frame in slow.frames[1:] for body in frame] == [b"a", b"b"]
        assert len(producer.outside.accumulator) == 0
