"""Pulls of one range by the thread that decodes: what it asks for ahead, and what becomes of it when that was wrong."""

from __future__ import annotations

import itertools
import random

import pytest

from rocketpy.errors import RocketMQError
from rocketpy.message import MessageQueue
from rocketpy.remoting.data.thread import ThreadConnection
from rocketpy.spark.source import direct, pulling
from rocketpy.spark.source.clients import clients
from rocketpy.spark.source.offsets import OffsetRange
from rocketpy.spark.source.options import batch_options
from rocketpy.spark.source.pulling import pulled
from rocketpy.sync import Admin, Message, Producer
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.serialize import decode_command
from rocketpy_broker_sim import BlockingLocalCluster
from tests.remoting.test_thread_connection import eventually
from tests.security.signed import is_signed

_numbers = itertools.count()
pytestmark = pytest.mark.waits("threads read from real sockets")


@pytest.fixture
def topic(cluster):
    name = f"Pulling{next(_numbers)}"
    cluster.create_topic(name, queues=1)
    return name


@pytest.fixture
def sent_ahead(monkeypatch):
    """How many pulls were sent together, for each time."""
    found = []
    begin = ThreadConnection.begin

    def noted(connection, frames, deadline):
        found.append(len(frames))
        return begin(connection, frames, deadline)

    monkeypatch.setattr(ThreadConnection, "begin", noted)
    return found


def offsets_of(client, wanted, options):
    """Offsets of a range, as its answers bring them."""
    with pulled(client.trio_client, wanted, options) as answers:
        return [message.queue_offset for body in answers for message in decode_messages(body, broker_name="")]


def linked(client, wanted, options):
    """Wait until there is a data connection."""

    def stands():
        offsets_of(client, wanted, options)
        return client.trio_client.data_links.all()

    eventually(stands)


def fill(namesrv, topic, bodies, **parts):
    with Producer("pulling-tests", namesrv=namesrv) as producer:
        producer.send_many([Message(topic, body, **parts) for body in bodies])
    return MessageQueue(topic, "broker-a", 0)


def test_even_answers_are_asked_for_together_and_not_in_the_portal(namesrv, topic, batch, sent_ahead, monkeypatch):
    queue = fill(namesrv, topic, [b"%d" % number for number in range(2000)])
    options = batch()
    with clients().use(options.client) as client:
        linked(client, OffsetRange(queue, 0, 50), options)
        monkeypatch.setattr(pulling.Pulls, "_pull", None)  # the way through the portal
        sent_ahead.clear()
        assert offsets_of(client, OffsetRange(queue, 0, 2000), options) == list(range(2000))
        assert sum(sent_ahead) == 63, "no pull was in vain"
        assert max(sent_ahead) == direct._MOST_AHEAD
        assert not len(client.trio_client.data_links.all()[0])


def test_pulls_are_signed(namesrv, topic, batch, monkeypatch):
    queue = fill(namesrv, topic, [b"%d" % number for number in range(500)])
    options = batch(**{"rocketmq.accessKey": "me", "rocketmq.secretKey": "sesame"})
    commands = []
    begin = ThreadConnection.begin

    def noted(connection, frames, deadline):
        decoder = FrameDecoder()
        for _, frame in frames:
            decoder.receive_data(frame)
        commands.extend(map(decode_command, decoder.frames()))
        return begin(connection, frames, deadline)

    monkeypatch.setattr(ThreadConnection, "begin", noted)
    with clients().use(options.client) as client:
        linked(client, OffsetRange(queue, 0, 50), options)
        monkeypatch.setattr(pulling.Pulls, "_pull", None)  # the way through the portal
        assert offsets_of(client, OffsetRange(queue, 0, 500), options) == list(range(500))
    assert len(commands) >= 16
    assert all(is_signed(command.ext_fields, b"", "sesame") for command in commands)


@pytest.mark.parametrize("to", ["begin", "end"])
@pytest.mark.parametrize("midway", [False, True])
def test_a_reset_of_the_group_leaves_no_message_out(namesrv, topic, batch, to, midway, monkeypatch):
    """The broker tells it each connection several times, also in answer to all pulls that are under way."""
    monkeypatch.setattr(pulling, "_IDLE_PAUSE", 0.001)
    queue = fill(namesrv, topic, [b"%d" % number for number in range(2000)])
    options = batch(consumerGroup=f"reading-{topic}")
    with clients().use(options.client) as client, Admin(namesrv=namesrv) as admin:
        linked(client, OffsetRange(queue, 0, 50), options)

        def reset():
            changed = admin.offsets.reset(options.group, topic, to)
            assert [each.offset for each in changed] == [2000 if to == "end" else 0]

        if not midway:
            reset()
        found = []
        with pulled(client.trio_client, OffsetRange(queue, 0, 2000), options) as answers:
            for body in answers:
                before = len(found)
                found += [message.queue_offset for message in decode_messages(body, broker_name="")]
                if midway and before < 320 <= len(found):
                    reset()
        assert found == list(range(2000))


def test_uneven_answers_are_all_read(namesrv, topic, batch, sent_ahead):
    """A broker sends 256 KiB at most, so the number of messages in an answer follows their sizes."""
    sizes = [100 + 40_000 * (number % 7 == 0) + 90_000 * (number % 31 == 5) for number in range(600)]
    queue = fill(namesrv, topic, [random.Random(size).randbytes(size) for size in sizes])
    options = batch()
    with clients().use(options.client) as client:
        linked(client, OffsetRange(queue, 0, 2), options)
        sent_ahead.clear()
        assert offsets_of(client, OffsetRange(queue, 0, 600), options) == list(range(600))
        assert max(sent_ahead) > 1, "some were sent together"
        assert not len(client.trio_client.data_links.all()[0])


def test_filtered_answers_are_all_read(namesrv, topic, batch):
    queue = fill(namesrv, topic, [b"%d" % number for number in range(500)], tags="a")
    fill(namesrv, topic, [b"%d" % number for number in range(70)], tags="b")
    fill(namesrv, topic, [b"%d" % number for number in range(500)], tags="a")
    options = batch(tags="b")
    with clients().use(options.client) as client:
        linked(client, OffsetRange(queue, 0, 1070), options)
        assert offsets_of(client, OffsetRange(queue, 0, 1070), options) == list(range(500, 570))


def test_answers_wait_for_a_reader_that_does_something_else(namesrv, topic, batch, sent_ahead):
    queue = fill(namesrv, topic, [b"%d" % number for number in range(1000)])
    options = batch()
    with clients().use(options.client) as client:
        linked(client, OffsetRange(queue, 0, 50), options)
        (link,) = client.trio_client.data_links.all()
        sent_ahead.clear()
        with pulled(client.trio_client, OffsetRange(queue, 0, 1000), options) as answers:
            found = []
            for body in answers:
                answers.settle()
                assert not len(link), "nothing is under way"
                found += [message.queue_offset for message in decode_messages(body, broker_name="")]
        assert found == list(range(1000))
        assert max(sent_ahead) > 1, "some were sent together"


def test_a_reader_that_is_left_leaves_nothing_behind(namesrv, topic, batch):
    queue = fill(namesrv, topic, [b"%d" % number for number in range(1000)])
    options = batch()
    with clients().use(options.client) as client:
        linked(client, OffsetRange(queue, 0, 50), options)
        (link,) = client.trio_client.data_links.all()
        with pulled(client.trio_client, OffsetRange(queue, 0, 1000), options) as answers:
            for number, _ in enumerate(answers):
                if number == 12:
                    break
            assert answers._ahead._pulls, "some were sent ahead"
        assert not len(link)


@pytest.mark.slow
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_broker_that_goes_away_with_pulls_under_way(comes_back):
    with BlockingLocalCluster() as cluster:
        cluster.create_topic("Going", queues=1)
        namesrv = cluster.name_server_addresses
        queue = fill(namesrv, "Going", [b"%d" % number for number in range(5000)])
        retries = {"fetchOffset.numRetries": "50" if comes_back else "2", "fetchOffset.retryIntervalMs": "20"}
        options = batch_options({"namesrv": namesrv, "subscribe": "Going", **retries})
        with clients().use(options.client) as client:
            linked(client, OffsetRange(queue, 0, 50), options)
            with pulled(client.trio_client, OffsetRange(queue, 0, 5000), options) as answers:
                found = []

                def read():
                    for number, body in enumerate(answers):
                        found.extend(message.queue_offset for message in decode_messages(body, broker_name=""))
                        if number == 10:
                            assert answers._ahead._pulls, "some were sent ahead"
                            (cluster.restart_broker if comes_back else cluster.kill_broker)(0)

                if comes_back:
                    read()
                    assert found == list(range(5000))
                else:
                    with pytest.raises(RocketMQError) as failed:
                        read()
                    assert found == list(range(len(found)))
                    (note,) = failed.value.__notes__
                    assert note == f"while pulling Going@broker-a:0 from offset {len(found)}, tried 3 times"
        clients().close()
