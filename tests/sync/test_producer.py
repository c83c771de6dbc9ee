"""The blocking producer against a real name server and broker, over TCP."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import weakref
from concurrent.futures import Future, wait
from contextlib import suppress

import pytest
import trio

from rocketpy.errors import (
    ClientClosedError,
    ConfigError,
    NameServerUnreachableError,
    SendManyError,
    TooManyRequestsError,
    TopicNotFoundError,
)
from rocketpy.sync import Message, MQClientInstance, Producer, SendStatus, at_exit
from rocketpy.sync.gate import Gate
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim import BlockingLocalCluster
from tests.garbage import garbage


def test_S1_a_blocking_send_returns_where_the_message_went(namesrv, topic):
    with Producer("pg", namesrv=namesrv) as producer:
        first = producer.send(Message(topic, b"one", tags="a"))
        assert first.status is SendStatus.SEND_OK
        again = producer.send(Message(topic, b"two"), queue=first.queue)
        assert (again.queue, again.queue_offset) == (first.queue, first.queue_offset + 1)


@pytest.mark.slow
def test_a_send_leaves_no_work_for_the_garbage_collector(namesrv, topic):
    with Producer("pg", namesrv=namesrv) as producer, garbage() as found:
        producer.create_topic(topic)
        producer.send(Message(topic, b"connects"))
        producer.send_many(Message(topic, b"x") for _ in range(500))
        before = found("PendingSend", "_Answered", "Future", "MessageFrame", "FramesInFlight", "SendMany")
        for _ in range(50):
            producer.send(Message(topic, b"x"))
        for _ in range(50):
            producer.send_soon(Message(topic, b"x")).result(10)
        producer.send_many(Message(topic, b"x", sharding_key=f"{n % 9}") for n in range(500))
        assert found("PendingSend", "_Answered", "Future", "MessageFrame", "FramesInFlight", "SendMany") == before


@pytest.mark.slow
def test_a_send_many_that_fails_leaves_none_either(namesrv, topic):
    good, bad = Message(topic, b"x"), Message(topic, b"x")
    bad.body = b""
    with Producer("pg", namesrv=namesrv) as producer, garbage() as found:
        producer.send_many([good])
        before = found("Message", "MessageFrame", "FramesInFlight", "SendMany", "SendManyError")
        for messages in ([bad], [good, bad, bad, good]):
            with suppress(SendManyError):  # pytest.raises would keep the error
                producer.send_many(messages)
        assert found("Message", "MessageFrame", "FramesInFlight", "SendMany", "SendManyError") == before


@pytest.mark.parametrize("tries", [1, 3])
def test_errors_of_a_send_many_that_are_kept_keep_no_messages(tries):
    class Mine(Message):
        __slots__ = ("__weakref__",)

    kept, seen = [], []

    def messages():
        for _ in range(20):
            message = Mine("Orders", b"x")
            seen.append(weakref.ref(message))
            yield message

    with BlockingLocalCluster() as cluster:
        settings = {"namesrv": cluster.name_server_addresses, "retry_times_when_send_failed": tries - 1}
        with Producer("pg", **settings) as producer:
            producer.send(Message("Orders", b"connects"))
            cluster.refuse_sends(4 * tries, code=ResponseCode.SERVICE_NOT_AVAILABLE)
            producer.send_many(messages(), batch_size=5, on_failure=kept.append)
    gc.collect()
    assert sorted((each.first, each.last) for each in kept) == [(0, 4), (5, 9), (10, 14), (15, 19)]
    assert [each() for each in seen] == [None] * 20


def test_S2_send_soon_gives_futures_that_hold_results(namesrv, topic):
    with Producer("pg", namesrv=namesrv) as producer:
        producer.create_topic(topic, queues=8)
        futures = [producer.send_soon(Message(topic, f"{n}".encode(), keys=[str(n)])) for n in range(500)]
        results = [future.result(10) for future in futures]
    assert all(result.status is SendStatus.SEND_OK for result in results)
    places = {(result.queue, result.queue_offset) for result in results}
    assert len(places) == 500
    assert len({queue for queue, _ in places}) == 8


def test_S2_send_soon_with_queue_selector_and_callbacks(namesrv, topic):
    with Producer("pg", namesrv=namesrv) as producer:
        producer.create_topic(topic)
        queue = producer.queues(topic)[2]
        called = []
        future = producer.send_soon(Message(topic, b"x"), queue=queue)
        future.add_done_callback(called.append)
        chosen = producer.send_soon(Message(topic, b"x"), selector=lambda queues, message, arg: queues[arg], arg=1)
        wait([future, chosen], 10)
        assert future.result().queue == queue
        assert chosen.result().queue.queue_id == 1
    assert called == [future]


def test_S7_what_a_selector_raises_is_in_the_future(namesrv, topic):
    def broken(queues, message, arg):
        raise KeyError("mine")

    with Producer("pg", namesrv=namesrv) as producer:
        producer.create_topic(topic)
        with pytest.raises(KeyError, match="mine"):
            producer.send_soon(Message(topic, b"x"), selector=broken).result(10)
        with pytest.raises(ConfigError):
            producer.send_soon(Message(topic, b"x"), queue="no queue").result(10)
        assert producer.send_soon(Message(topic, b"x")).result(10).status is SendStatus.SEND_OK


def test_S4_send_soon_refuses_at_once_what_can_never_be_sent(namesrv):
    with Producer("pg", namesrv=namesrv) as producer:
        for bad in (None, "text", Message("bad name", b"x")):
            with pytest.raises(ConfigError):
                producer.send_soon(bad)


def test_S3_oneway_and_batches(namesrv, topic):
    with Producer("pg", namesrv=namesrv) as producer:
        producer.create_topic(topic, queues=1)
        producer.send_oneway(Message(topic, b"unanswered"))
        result = producer.send_batch([Message(topic, b"a"), Message(topic, b"b")])
        assert len(result.message_id.split(",")) == 2
        # It may take another connection than what is answered, and be overtaken there.
        answered = range(2, 1000)
        assert any(producer.send(Message(topic, b"c")).queue_offset == count + 1 for count in answered)


def test_many_threads_share_one_producer(namesrv, topic):
    places = []
    with Producer("pg", namesrv=namesrv) as producer:
        producer.create_topic(topic)

        def send():
            for _ in range(20):
                result = producer.send(Message(topic, b"x"))
                places.append((result.queue, result.queue_offset))

        threads = [threading.Thread(target=send) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(set(places)) == 200


def test_closing_waits_for_what_is_under_way(namesrv, topic):
    producer = Producer("pg", namesrv=namesrv)
    producer.start()
    futures = [producer.send_soon(Message(topic, b"x")) for _ in range(300)]
    producer.close()
    producer.close()
    assert all(future.result(0).status is SendStatus.SEND_OK for future in futures)


def test_LC2_a_producer_that_is_not_open_says_what_to_do(namesrv, topic):
    producer = Producer("pg", namesrv=namesrv)
    with pytest.raises(ClientClosedError, match="start"):
        producer.send(Message(topic, b"x"))
    with producer:
        with pytest.raises(ClientClosedError, match="already"):
            producer.start()
        producer.send(Message(topic, b"x"))
    for use in (producer.send, producer.send_soon, producer.send_oneway):
        with pytest.raises(ClientClosedError):
            use(Message(topic, b"x"))


def test_a_producer_that_was_closed_before_its_start_sends_soon_too(namesrv, topic):
    producer = Producer("pg", namesrv=namesrv)
    producer.close()
    with producer:
        assert producer.send_soon(Message(topic, b"x")).result(10).status is SendStatus.SEND_OK
    with pytest.raises(ClientClosedError):
        producer.send_soon(Message(topic, b"x"))


def test_LC2_two_producers_share_a_client(namesrv, topic):
    with MQClientInstance(namesrv=namesrv) as client:
        with Producer("g1", client=client) as one, Producer("g2", client=client) as two:
            one.send(Message(topic, b"x"))
            two.send(Message(topic, b"x"))
            with pytest.raises(ConfigError, match="g1"):
                Producer("g1", client=client).start()
        assert client.is_open


@pytest.mark.waits("what was gone is dialled again after a while, in real time")
def test_S6_errors_are_those_of_the_trio_surface(namesrv):
    with Producer("pg", namesrv="127.0.0.1:1", send_timeout=2.0) as producer:
        with pytest.raises(NameServerUnreachableError, match=r"127\.0\.0\.1:1"):
            producer.send(Message("T", b"x"))
        with pytest.raises(NameServerUnreachableError, match=r"127\.0\.0\.1:1"):
            producer.send_soon(Message("T", b"x")).result(10)
    with Producer("pg", namesrv=namesrv) as producer, pytest.raises(TopicNotFoundError):
        producer.queues("NobodyMadeThis")


# --- back-pressure --------------------------------------------------------------------------------------


@pytest.mark.waits("a thread must still be waiting after a moment")
def test_S15_the_gate_bounds_number_and_bytes():
    gate = Gate(2, 100)
    gate.enter("one", 60)
    entered = threading.Event()

    def second():
        gate.enter("two", 60)
        entered.set()

    thread = threading.Thread(target=second, daemon=True)
    thread.start()
    assert not entered.wait(0.05)
    gate.leave("one")
    assert entered.wait(10)
    thread.join(10)
    gate.leave("two")
    gate.enter("large", 1000)  # larger than the bound: alone it may pass
    gate.leave("large")
    gate.leave("large")  # a place that was given back, or never taken, changes nothing
    gate.enter("three", 1)
    gate.enter("four", 1)
    waiting = threading.Event()
    refused = []

    def third():
        waiting.set()
        try:
            gate.enter("five", 1)
        except ClientClosedError as error:
            refused.append(error)

    thread = threading.Thread(target=third, daemon=True)
    thread.start()
    waiting.wait(10)
    gate.close()
    thread.join(10)
    assert len(refused) == 1


def test_ctrl_c_while_a_send_soon_is_handed_over_loses_no_place(namesrv, topic, monkeypatch):
    with Producer("pg", namesrv=namesrv, back_pressure_for_async_send_num=10) as producer:
        producer.send(Message(topic, b"x"))

        def interrupted(*args):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(producer._home, "post", interrupted)
            # The connection for data may stand by now, or not yet: without one a message is handed over.
            patch.setattr(type(producer._direct), "nowait", lambda direct, address: None)
            for _ in range(20):
                with pytest.raises(KeyboardInterrupt):
                    producer.send_soon(Message(topic, b"x"))
        assert producer.send_soon(Message(topic, b"x")).result(10).status is SendStatus.SEND_OK


@pytest.mark.parametrize("call", ["send_soon", "request_soon"])
@pytest.mark.waits("until there was no room in the time that a message has")
def test_S3_a_message_for_which_there_is_no_room_in_time_is_not_sent(cluster, namesrv, topic, call):
    with Producer("pg", namesrv=namesrv, back_pressure_for_async_send_num=1) as producer:
        queue = producer.send(Message(topic, b"makes the topic")).queue
        gate = producer._gate if call == "send_soon" else producer._request_gate
        gate.enter("another", 1)
        with pytest.raises(TooManyRequestsError, match=rf"room for a message to {topic} within 0.05 s: nothing was"):
            getattr(producer, call)(Message(topic, b"late"), queue=queue, timeout=0.05)
        assert gate.tickets() == ["another"]
        gate.leave("another")
        assert producer.send(Message(topic, b"next"), queue=queue).queue_offset == 1


def test_a_forgotten_producer_is_not_kept_for_the_end_of_the_process_once_it_is_idle(namesrv):
    producer = Producer("pg", namesrv=namesrv)
    producer.start()
    under_way, opened = producer._under_way, producer._opened
    assert under_way in at_exit._senders
    with pytest.warns(ResourceWarning, match="was not closed"):
        del producer
    assert opened.ended.wait(10)
    opened.home.call(trio.lowlevel.checkpoint)  # it is forgotten in the thread where it ended
    assert under_way not in at_exit._senders | at_exit._collected


@pytest.mark.parametrize("step", ["try_take", "take"])
def test_ctrl_c_when_a_send_has_its_turn_or_its_place_leaves_the_lane_of_its_key_to_the_next(
    namesrv, topic, monkeypatch, step
):
    with Producer("pg", namesrv=namesrv, send_timeout=5) as producer:
        producer.send(Message(topic, b"x"))
        order, message = producer._direct.core.order, Message(topic, b"x", sharding_key="k")
        real = getattr(order, step)
        key = topic, "k"
        holds = step == "take" and order.try_take(key)

        def struck(*arguments):
            real(*arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(order, step, struck)
            with pytest.raises(KeyboardInterrupt):
                producer.send(message)
        if holds:
            order.pass_on(key)
        assert len(order) == 0
        assert producer.send(message).status is SendStatus.SEND_OK


@pytest.mark.parametrize("shared", [True, False], ids=["a client that stays open", "a client of its own"])
@pytest.mark.parametrize("connected", [True, False], ids=["connected", "not connected"])
def test_a_finalizer_may_close_it_in_the_middle_of_send_soon(namesrv, topic, monkeypatch, connected, shared):
    """The message waits for the finalizer, so closing does not wait for the message, which is sent or fails later."""
    with MQClientInstance(namesrv=namesrv) as client:
        producer = Producer("pg", **({"client": client} if shared else {"namesrv": namesrv}))
        producer.start()
        producer.create_topic(topic)
        for _ in range(3 * connected):
            producer.send(Message(topic, b"connects"))
        enter = producer._gate.enter

        def struck(*arguments, **keywords):
            entered = enter(*arguments, **keywords)
            producer.close()
            return entered

        monkeypatch.setattr(producer._gate, "enter", struck)
        future = producer.send_soon(Message(topic, b"x"))
        assert not producer.is_open
        if connected and shared:
            assert future.result(5).status is SendStatus.SEND_OK
        else:
            with pytest.raises(ClientClosedError):
                future.result(5)


@pytest.mark.parametrize("shared", [True, False], ids=["a client that stays open", "a client of its own"])
@pytest.mark.parametrize("way", ["send_soon", "send", "request_soon"])
def test_a_finalizer_may_close_it_in_the_middle_of_a_call_that_lingers_or_asks(
    namesrv, topic, monkeypatch, way, shared
):
    with MQClientInstance(namesrv=namesrv) as client:
        settings = {"client": client} if shared else {"namesrv": namesrv}
        producer = Producer("pg", **settings, linger=0.005)
        producer.start()
        producer.create_topic(topic)
        producer.send(Message(topic, b"connects"))
        gate = producer._request_gate if way == "request_soon" else producer._gate
        enter = gate.enter

        def struck(*arguments, **keywords):
            entered = enter(*arguments, **keywords)
            producer.close()
            return entered

        monkeypatch.setattr(gate, "enter", struck)
        try:  # it goes out if the client has a connection, as a message of `send_soon` does, or fails
            called = getattr(producer, way)(Message(topic, b"x"))
            result = called if way == "send" else called.result(5)
        except ClientClosedError:
            pass
        else:
            assert shared
            assert result.status is SendStatus.SEND_OK
        assert not producer.is_open
        assert len(gate) == 0


# --- forks and signals ----------------------------------------------------------------------------------


def test_threat_L12_a_producer_used_after_a_fork_says_what_to_do(namesrv, topic):
    with Producer("pg", namesrv=namesrv) as producer:
        producer.send(Message(topic, b"parent"))
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            report = b"no error"
            try:
                try:
                    producer.send(Message(topic, b"child"))
                except ClientClosedError as error:
                    report = b"fork" if "fork" in str(error) else str(error).encode()
                producer.close()  # must neither hang nor say goodbye for the parent
                with Producer("pg2", namesrv=namesrv) as fresh:
                    report += b" " + fresh.send(Message(topic, b"child")).status.name.encode()
            except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must see it
                report += repr(error).encode()
            finally:
                os.write(write, report)
                os._exit(0)
        os.waitpid(child, 0)
        os.close(write)
        assert os.read(read, 1000) == b"fork SEND_OK"
        os.close(read)
        assert producer.send(Message(topic, b"parent")).status is SendStatus.SEND_OK


@pytest.mark.slow
@pytest.mark.parametrize("surface", ["blocking", "trio", "asyncio"])
def test_ctrl_c_ends_a_program_that_waits_in_a_send(surface, tmp_path):
    """A listener that never answers stands for a broker that hangs; Ctrl-C must not."""
    program = textwrap.dedent(
        """
        import asyncio, sys, trio, rocketpy, rocketpy.aio, rocketpy.sync
        surface, address = sys.argv[1:]
        message = rocketpy.Message("T", b"x")
        if surface == "blocking":
            with rocketpy.sync.Producer("pg", namesrv=address, send_timeout=600, request_timeout=600) as producer:
                producer.send(message)
        else:
            kind = rocketpy.Producer if surface == "trio" else rocketpy.aio.Producer
            async def main():
                async with kind("pg", namesrv=address, send_timeout=600, request_timeout=600) as producer:
                    await producer.send(message)
            trio.run(main) if surface == "trio" else asyncio.run(main())
        """
    )
    with socket.create_server(("127.0.0.1", 0)) as hole:
        hole.settimeout(20)
        command = [sys.executable, "-c", program, surface, f"127.0.0.1:{hole.getsockname()[1]}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            asked, _ = hole.accept()
            with asked:
                assert asked.recv(1)  # it has asked for the route, and will not hear
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors
    assert process.returncode in {-signal.SIGINT, 130, 1}


def test_futures_are_of_the_standard_library(namesrv, topic):
    with Producer("pg", namesrv=namesrv) as producer:
        future = producer.send_soon(Message(topic, b"x"))
        assert isinstance(future, Future)
        assert not future.cancel()
        assert future.result(10).queue.topic == topic


def test_a_producer_that_was_forgotten_says_so_and_is_closed(namesrv):
    def forget():
        producer = Producer("pg", namesrv=namesrv)
        producer.start()
        return producer._opened

    with pytest.warns(ResourceWarning, match="Producer pg open> was not closed: use it inside `with`"):
        opened = forget()
    assert opened.ended.wait(10)


def test_a_shared_client_that_nobody_else_keeps_lives_as_long_as_its_producer(namesrv, topic):
    def make():
        client = MQClientInstance(namesrv=namesrv)
        client.start()
        producer = Producer("pg", client=client)
        producer.start()
        return producer

    producer = make()
    gc.collect()
    assert producer.send(Message(topic, b"x")).status is SendStatus.SEND_OK
    producer.close()
    producer._needs.close()
