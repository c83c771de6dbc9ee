"""Sending on the trio surface: what is refused, what arrives, what comes back."""

from __future__ import annotations

import hashlib
import zlib

import pytest
import trio

from rocketpy.client.instance import MQClientInstance
from rocketpy.client.sends.selection import by_hash, by_random
from rocketpy.errors import ClientClosedError, ConfigError, LocalProtocolError, RequestTimeoutError, RocketMQError
from rocketpy.message import Message, MessageQueue
from rocketpy.producer import Producer
from rocketpy.results import SendStatus
from rocketpy.wire.batch import decode_batch
from rocketpy.wire.codes import RequestCode, SerializeType
from rocketpy.wire.java_hash import string_hash
from rocketpy.wire.properties import decode_properties
from tests.producer.brokers import SendBroker


def message(body=b"hello", **fields):
    return Message(fields.pop("topic", "T"), body, **fields)


async def test_S1_a_send_says_where_the_message_went(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, _):
        sent = message(tags="a", keys=["k1", "k2"], properties={"colour": "blue"})
        result = await producer.send(sent)
    [taken] = broker.taken
    assert result.status is SendStatus.SEND_OK
    assert result.queue == MessageQueue("T", "broker-a", taken.header.queue_id)
    assert (result.queue_offset, result.offset_message_id) == (0, "0" * 32)
    assert taken.properties["UNIQ_KEY"] == result.message_id
    assert (taken.properties["TAGS"], taken.properties["KEYS"], taken.properties["colour"]) == ("a", "k1 k2", "blue")
    assert taken.body == b"hello"
    assert "UNIQ_KEY" not in sent.wire_properties  # the caller's message stays as it was


async def test_S1_the_request_carries_what_a_broker_needs(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, _):
        await producer.send(message())
    header = broker.taken[0].header
    assert (header.producer_group, header.topic, header.default_topic) == ("pg", "T", "TBW102")
    assert (header.default_topic_queue_nums, header.sys_flag, header.batch, header.bname) == (4, 0, False, "broker-a")
    assert RequestCode.SEND_MESSAGE_V2 in broker.codes()


class Watching:
    """A hook; that there is one makes requests be written field by field."""

    def before_request(self, address, request):
        pass

    def after_answer(self, address, request, answer):
        pass


@pytest.mark.parametrize("hooks", [(), (Watching(),)], ids=["from templates", "with hooks"])
@pytest.mark.parametrize("chosen", ["JSON", "ROCKETMQ", SerializeType.ROCKETMQ])
async def test_every_request_has_the_header_encoding_of_the_settings(autojump_clock, opened, chosen, hooks):
    broker = SendBroker()
    async with (
        opened(broker, enter=False) as (_, world),
        MQClientInstance(namesrv="ns:9876", network=world.network, serialize_type=chosen, hooks=hooks) as client,
        Producer("pg", client=client) as producer,
    ):
        await producer.send(message(tags="größe"))
        await producer.send_batch([message(b"one"), message(b"two")])
        await producer.send_oneway(message(b"no answer"))
    assert [taken.body for taken in broker.taken][::2] == [b"hello", b"no answer"]
    assert broker.taken[0].properties["TAGS"] == "größe"
    used = {request.serialize_type for server in (broker, world.name_server) for request in server.requests}
    assert used == {SerializeType[chosen] if isinstance(chosen, str) else chosen}


async def test_sends_take_the_queues_in_turn(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, _):
        queues = [(await producer.send(message())).queue.queue_id for _ in range(8)]
    assert sorted(queues[:4]) == [0, 1, 2, 3]
    assert queues[:4] == queues[4:]


@pytest.mark.parametrize(
    ("code", "status"), [(10, "FLUSH_DISK_TIMEOUT"), (12, "FLUSH_SLAVE_TIMEOUT"), (11, "SLAVE_NOT_AVAILABLE")]
)
async def test_S1_a_stored_message_with_a_lesser_promise_is_no_error(autojump_clock, opened, code, status):
    broker = SendBroker(script=[code])
    async with opened(broker) as (producer, _):
        assert (await producer.send(message())).status is SendStatus[status]
    assert len(broker.taken) == 1


async def test_S3_oneway_is_written_once_and_never_answered(autojump_clock, opened):
    broker = SendBroker(script=[14, 14, 14])
    async with opened(broker) as (producer, _):
        await producer.send_oneway(message())
        await producer.send_oneway(message(), queue=MessageQueue("T", "broker-a", 2))
        await producer.send_oneway(message(), selector=by_hash, arg="x")
        await trio.testing.wait_all_tasks_blocked()
        assert [taken.oneway for taken in broker.taken] == [True, True, True]
        assert broker.taken[1].header.queue_id == 2
        assert broker.taken[2].header.queue_id == abs(string_hash("x")) % 4


async def test_a_task_that_sends_oneway_in_a_loop_lets_others_run_and_can_be_cancelled(autojump_clock, opened):
    broker = SendBroker()
    turns = 0

    async def other():
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with opened(broker) as (producer, _), trio.open_nursery() as nursery:
        await producer.send(message())
        nursery.start_soon(other)
        for number in range(320):
            await producer.send_oneway(message(b"%d" % number))
        assert turns >= 5
        with trio.CancelScope() as scope:
            scope.cancel()
            await producer.send_oneway(message(b"the last"))
        assert scope.cancelled_caught
        nursery.cancel_scope.cancel()
    bodies = [taken.body for taken in broker.taken[1:]]
    assert bodies[:320] == [b"%d" % number for number in range(320)]
    assert bodies[320:] in ([], [b"the last"])  # whether a cancelled send gets there is unknown


async def test_S4_what_can_never_be_sent_is_refused_before_the_network(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker, max_message_size=100) as (producer, _):
        replaced = message()
        replaced.body = b""
        bad = [None, "text", replaced, message(b"x" * 101), message(topic="no spaces"), message(topic="x" * 128)]
        bad += [message(topic="SCHEDULE_TOPIC_XXXX"), message(topic="../../x")]
        for each in bad:
            with pytest.raises(ConfigError):
                await producer.send(each)
            with pytest.raises(ConfigError):
                await producer.send_oneway(each)
        await producer.send(message(b"x" * 100))
    assert len(broker.taken) == 1


async def test_S4_a_body_that_was_replaced_is_told_without_what_it_is_now(autojump_clock, opened):
    replaced = message()
    async with opened(SendBroker()) as (producer, _):
        for body, found in (
            (b"", "nothing"),
            ("secret", "an object of type str"),
            (None, "an object of type NoneType"),
        ):
            replaced.body = body
            with pytest.raises(ConfigError, match=f"to T was replaced by {found}: it must be bytes, at least one$"):
                await producer.send(replaced)


def test_S4_empty_bodies_and_blank_topics_are_refused_when_the_message_is_made():
    for bad in ("", b"", None, 5):
        with pytest.raises(ConfigError):
            Message("T", bad)
    for topic in (None, ""):
        with pytest.raises(ConfigError):
            Message(topic, b"x")


async def test_S7_unusable_queues_and_selectors_are_refused(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, _):
        for fields in (
            {"queue": "T-0"},
            {"queue": MessageQueue("other", "broker-a", 0)},
            {"selector": 5},
            {"queue": MessageQueue("T", "broker-a", 0), "selector": by_random},
            {"selector": lambda queues, message, arg: MessageQueue("T", "elsewhere", 9)},
            {"timeout": 0},
            {"timeout": -1.0},
        ):
            with pytest.raises(ConfigError):
                await producer.send(message(), **fields)

        def broken(queues, message, arg):
            raise KeyError(arg)

        with pytest.raises(KeyError, match="mine"):
            await producer.send(message(), selector=broken, arg="mine")
        await producer.send(message())
    assert len(broker.taken) == 1


async def test_S9_properties_in_any_script_arrive_equal(autojump_clock, opened):
    broker = SendBroker()
    properties = {"english": "value", "名字": "值 with spaces", "emoji": "🚀"}
    async with opened(broker) as (producer, _):
        await producer.send(message(properties=properties))
    got = broker.taken[0].properties
    assert {name: got[name] for name in properties} == properties


async def test_S9_separators_put_into_the_properties_by_hand_are_refused(autojump_clock, opened):
    async with opened(SendBroker()) as (producer, _):
        bad = message()
        bad.wire_properties["x"] = "a\x02b\x01c"
        with pytest.raises(LocalProtocolError):
            await producer.send(bad)


async def test_the_counts_of_a_message_to_a_retry_topic_are_those_of_that_message_alone(autojump_clock, opened):
    broker = SendBroker()
    counted = message(topic="%RETRY%g")
    counted.wire_properties.update(RECONSUME_TIME="3", MAX_RECONSUME_TIMES="5")
    async with opened(broker, topic="%RETRY%g") as (producer, _):
        for each in (counted, message(topic="%RETRY%g"), counted):
            await producer.send(each)
    counts = [(taken.header.reconsume_times, taken.header.max_reconsume_times) for taken in broker.taken]
    assert counts == [(3, 5), (0, None), (3, 5)]
    assert not any("RECONSUME_TIME" in taken.properties for taken in broker.taken)


async def test_S10_large_bodies_are_compressed_and_small_ones_are_not(autojump_clock, opened):
    broker = SendBroker()
    body = b"flight " * 1000
    async with opened(broker) as (producer, _):
        await producer.send(message(body))
        await producer.send(message(b"x" * 4095))
        await producer.send(message(b"x" * 4096))
    large, small, edge = broker.taken
    assert large.header.sys_flag == 0x301
    assert zlib.decompress(large.body) == body
    assert (small.header.sys_flag, small.body) == (0, b"x" * 4095)
    assert edge.header.sys_flag == 0x301


async def test_S10_a_body_that_does_not_shrink_travels_as_it_is(autojump_clock, opened):
    broker = SendBroker()
    body = hashlib.shake_256(b"seed").digest(5000)
    assert len(zlib.compress(body, 5)) > len(body)
    async with opened(broker) as (producer, _):
        await producer.send(message(body))
    assert (broker.taken[0].header.sys_flag, broker.taken[0].body) == (0, body)


async def test_S14_selectors_see_the_queues_and_decide(autojump_clock, opened):
    broker = SendBroker()
    seen = []

    def last(queues, sent, arg):
        seen.append((len(queues), sent.body, arg))
        return queues[-1]

    async with opened(broker) as (producer, _):
        result = await producer.send(message(), selector=last, arg=7)
        assert result.queue.queue_id == 3
        assert (await producer.send(message(), selector=by_random)).queue.topic == "T"
    assert seen == [(4, b"hello", 7)]


async def test_a_sharding_key_always_finds_its_queue(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, _):
        for key in ("42", "42", "order-7", "42"):
            await producer.send(message(sharding_key=key))
    assert [taken.header.queue_id for taken in broker.taken] == [
        abs(string_hash(key)) % 4 for key in ("42", "42", "order-7", "42")
    ]


async def test_B2_a_batch_is_one_frame_with_an_id_for_every_message(autojump_clock, opened):
    broker = SendBroker()
    batch = [message(b"one", tags="a"), message(b"two", keys=["k"]), message(b"three")]
    async with opened(broker) as (producer, _):
        result = await producer.send_batch(batch)
    [taken] = broker.taken
    items = decode_batch(taken.body)
    assert [item.body for item in items] == [b"one", b"two", b"three"]
    ids = [decode_properties(item.properties.decode())["UNIQ_KEY"] for item in items]
    assert result.message_id == ",".join(ids)
    assert len(set(ids)) == 3
    assert taken.header.batch is True
    assert all("UNIQ_KEY" not in each.wire_properties for each in batch)


async def test_B1_messages_that_cannot_travel_together_are_refused(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker, max_message_size=200) as (producer, _):
        for batch in (
            [],
            [message(), message(topic="T2")],
            [message(), message(wait_store_ok=False)],
            [message(), message(delay_level=2)],
            [message(b"x" * 90), message(b"x" * 90), message(b"x" * 90)],
            [message(), None],
        ):
            with pytest.raises(ConfigError):
                await producer.send_batch(batch)
    assert broker.taken == []


async def test_queues_and_topics_that_are_not_there(autojump_clock, opened):
    async with opened(SendBroker()) as (producer, _):
        assert [queue.queue_id for queue in await producer.queues("T")] == [0, 1, 2, 3]
        with pytest.raises(RocketMQError):
            await producer.queues("unknown")
        with pytest.raises(ConfigError, match="topic"):
            await producer.queues(None)
        for topic, queues in (("bad name", 4), ("SCHEDULE_TOPIC_XXXX", 4), ("New", 0), ("New", 70_000)):
            with pytest.raises(ConfigError):
                await producer.create_topic(topic, queues=queues)


async def test_a_broker_that_hangs_while_a_topic_is_created(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, world):
        world.route("TBW102", broker)
        broker.on(RequestCode.UPDATE_AND_CREATE_TOPIC, lambda connection, request: None)
        with pytest.raises(
            RequestTimeoutError, match=r"not there within 2 s: see whether all brokers .* answer, and create"
        ):
            await producer.create_topic("New", timeout=2)


async def test_arguments_of_a_wrong_type_are_refused_with_what_would_be_right(autojump_clock, opened):
    async with opened(SendBroker()) as (producer, _):
        for timeout in ("1", [], trio):
            with pytest.raises(ConfigError, match="timeout must be seconds or a timedelta, more than 0"):
                await producer.send(message(), timeout=timeout)
        for messages in (message(), (message() for _ in range(2)), {message}):
            with pytest.raises(ConfigError, match="a batch is a list of messages"):
                await producer.send_batch(messages)
        with pytest.raises(ConfigError, match="queues must be a whole number, not '4'"):
            await producer.create_topic("New", queues="4")
    with pytest.raises(ConfigError, match="keys is of type int: give a list of str"):
        message(keys=42)


# --- life ----------------------------------------------------------------------------------------------


async def test_LC2_a_producer_is_used_while_it_is_open_and_started_once(autojump_clock, opened):
    async with opened(SendBroker(), enter=False) as (producer, _):
        with pytest.raises(ClientClosedError, match="async with"):
            await producer.send(message())
        async with producer:
            with pytest.raises(ClientClosedError, match="already"):
                await producer.__aenter__()
            await producer.send(message())
        with pytest.raises(ClientClosedError):
            await producer.send(message())
        with pytest.raises(ClientClosedError):
            await producer.__aenter__()


async def test_LC2_brokers_hear_of_a_producer_and_of_its_leaving(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker) as (producer, _):
        await producer.send(message())
        await trio.sleep(1)
        assert [data.group_name for data in broker.heartbeats[-1].producer_data_set] == ["pg"]
    assert [left.producer_group for left in broker.left] == ["pg"]


async def test_S11_one_group_twice_on_a_shared_client_is_refused(autojump_clock, opened):
    broker = SendBroker()
    async with opened(broker, enter=False) as (_, world):
        async with MQClientInstance(namesrv="ns:9876", network=world.network) as client:
            async with Producer("g1", client=client) as first, Producer("g2", client=client) as second:
                with pytest.raises(ConfigError, match="g1"):
                    async with Producer("g1", client=client):
                        pass
                await first.send(message())
                await second.send(message())
            async with Producer("g1", client=client) as again:
                await again.send(message())
        async with (
            Producer("g1", namesrv="ns:9876", network=world.network) as one,
            Producer("g1", namesrv="ns:9876", network=world.network) as two,
        ):
            await one.send(message())
            await two.send(message())
    assert len(broker.taken) == 5


async def test_LC2_a_producer_whose_start_failed_may_be_started_again(autojump_clock, opened, monkeypatch):
    broker = SendBroker()
    async with opened(broker, enter=False) as (producer, _):
        first = producer.client
        with monkeypatch.context() as patched:
            patched.setattr(first, "register_producer", lambda group, role: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                async with producer:
                    raise AssertionError("it did not start")
        assert not first.is_open
        async with producer:
            assert (await producer.send(message())).queue_offset == 0


async def test_closing_waits_for_what_is_under_way(autojump_clock, opened):
    broker = SendBroker(script=["silence"])
    results = []
    async with opened(broker, send_timeout=2.0, retry_times_when_send_async_failed=1) as (producer, _):
        await producer.queues("T")
        producer.outside.start_send(producer.outside.prepare(message()), results.append)
        await trio.testing.wait_all_tasks_blocked()
        started = trio.current_time()
    assert len(results) == 1
    assert trio.current_time() - started <= 2.1


async def test_closing_says_after_a_second_what_it_waits_for(autojump_clock, opened, caplog):
    async with opened(SendBroker(script=["silence"] * 9), enter=False, send_timeout=4.0) as (producer, _):
        async with trio.open_nursery() as nursery, producer:
            await producer.queues("T")
            for _ in range(2):
                nursery.start_soon(_send_in_vain, producer)
            await trio.testing.wait_all_tasks_blocked()
    group = producer.config.group
    assert f"closing the producer of group {group}: waiting for 2 messages that are not acknowledged" in caplog.text


async def test_threat_L12_a_producer_cannot_be_pickled_but_its_config_can(autojump_clock, opened):
    import pickle

    async with opened(SendBroker(), enter=False) as (producer, _):
        with pytest.raises(TypeError, match="config"):
            pickle.dumps(producer)
        assert pickle.loads(pickle.dumps(producer.config)) == producer.config


async def test_closing_that_is_cancelled_while_it_waits_leaves_nothing_behind(autojump_clock, opened):
    async with opened(SendBroker(script=["silence"]), enter=False, send_timeout=50.0) as (producer, _):
        async with trio.open_nursery() as nursery:
            with trio.move_on_after(1.0) as scope:
                async with producer:
                    await producer.queues("T")
                    nursery.start_soon(_send_in_vain, producer)
                    await trio.testing.wait_all_tasks_blocked()
            assert scope.cancelled_caught
            assert trio.current_time() <= 1.0 + producer.config.close_timeout
            assert not producer.client.is_open
            assert producer.client.pool.statistics().open == 0


async def _send_in_vain(producer):
    with pytest.raises(RocketMQError):
        await producer.send(message())


async def test_a_shared_client_that_closes_first_does_not_keep_the_producer_from_closing(autojump_clock, opened):
    close = trio.Event()

    async def hold(client, *, task_status):
        async with client:
            task_status.started()
            await close.wait()

    async with opened(SendBroker(), enter=False) as (_, world), trio.open_nursery() as nursery:
        client = MQClientInstance(namesrv="ns:9876", network=world.network)
        await nursery.start(hold, client)
        async with Producer("shared", client=client) as producer:
            await producer.send(message())
            close.set()
            await trio.testing.wait_all_tasks_blocked()
            assert not client.is_open
            with pytest.raises(ClientClosedError):
                await producer.send(message())
        assert "closed" in repr(producer)
