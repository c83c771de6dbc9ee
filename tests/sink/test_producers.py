"""Which producers a process keeps, and when they go; time is a number here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from rocketpy.config import ProducerConfig
from rocketpy.errors import ClientClosedError, ServiceCrashedError
from rocketpy.spark.producers import Producers, producers
from rocketpy.sync import Message, Producer


class FakeProducer:
    """Opens, closes, breaks."""

    def __init__(self, config, log):
        self.config = config
        self.is_open = False
        self.fails = None
        self._log = log

    def start(self):
        self._log.append(("start", self.config.group))
        self.is_open = True

    def close(self):
        self._log.append(("close", self.config.group))
        self.is_open = False
        if self.fails is not None:
            raise self.fails


class FakeTime:
    """A clock, and the timers that run by it."""

    def __init__(self):
        self.now = 0.0
        self.timers = []

    def clock(self):
        return self.now

    def timer(self, seconds, function):
        return Timer(self, self.now + seconds, function)

    def sleep(self, seconds):
        end = self.now + seconds
        while due := sorted((each for each in self.timers if each.due <= end), key=lambda each: each.due):
            self.timers.remove(due[0])
            self.now = max(self.now, due[0].due)
            due[0].function()
        self.now = end


class Timer:
    def __init__(self, time, due, function):
        self.time, self.due, self.function = time, due, function

    def start(self):
        self.time.timers.append(self)

    def cancel(self):
        self.time.timers.remove(self)


@pytest.fixture
def log():
    return []


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def kept(time, log):
    made = Producers(30, clock=time.clock, timer=time.timer, make=lambda config: FakeProducer(config, log))
    yield made
    made.close()


def config(group="one"):
    return ProducerConfig(group=group, namesrv="127.0.0.1:9876")


@pytest.mark.slow
def test_one_producer_serves_all_partitions_of_a_configuration(kept, log):
    for _ in range(10_000):
        with kept.use(config()) as producer:
            assert producer.is_open
    with kept.use(config("two")):
        pass
    assert log == [("start", "one"), ("start", "two")]


def test_one_timer_is_enough_for_all_partitions(kept, time):
    for _ in range(1000):
        with kept.use(config()):
            pass
    assert len(time.timers) == 1


def test_what_nobody_has_used_for_a_while_is_closed(kept, time, log):
    with kept.use(config()):
        pass
    time.sleep(29)
    with kept.use(config()):
        pass
    time.sleep(29)
    assert ("close", "one") not in log
    time.sleep(1)
    assert log == [("start", "one"), ("close", "one")]
    assert time.timers == []
    with kept.use(config()):
        assert log[-1] == ("start", "one")


def test_what_is_in_use_is_not_closed_however_long_it_takes(kept, time, log):
    with kept.use(config()):
        with kept.use(config("two")):
            pass
        time.sleep(3600)
        assert log == [("start", "one"), ("start", "two"), ("close", "two")]
    time.sleep(29)
    assert len(kept) == 1
    time.sleep(31)
    assert len(kept) == 0


def test_a_producer_that_broke_is_replaced(kept, log):
    with kept.use(config()) as producer:
        producer.is_open = False
    with kept.use(config()) as other:
        assert other is not producer
    assert log == [("start", "one"), ("start", "one")]


def test_one_that_cannot_be_started_is_tried_anew(time, log):
    class Refusing(FakeProducer):
        def start(self):
            if not log:
                log.append("refused")
                raise ClientClosedError("no thread")
            super().start()

    kept = Producers(30, clock=time.clock, timer=time.timer, make=lambda config: Refusing(config, log))
    with pytest.raises(ClientClosedError), kept.use(config()):
        raise AssertionError
    assert (len(kept), time.timers) == (0, [])
    with kept.use(config()) as producer:
        assert producer.is_open
    kept.close()


def test_closing_goes_on_when_one_of_them_cannot_be_closed(kept, log, caplog):
    for group, error in (("one", ServiceCrashedError("a bug")), ("two", ClientClosedError("ended")), ("three", None)):
        with kept.use(config(group)) as producer:
            producer.fails = error
    kept.close()
    assert [name for word, name in log if word == "close"] == ["one", "two", "three"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    kept.close()


def test_secrets_tell_producers_apart(kept, log):
    for secret in ("one", "other"):
        with kept.use(ProducerConfig(group="g", namesrv="127.0.0.1:9876", access_key="a", secret_key=secret)):
            pass
    assert len(kept) == 2


# --- real ones ------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_makes_its_own_and_leaves_those_of_the_parent_alone(namesrv, topic, cluster):
    settings = ProducerConfig(group="forking", namesrv=namesrv)
    with producers().use(settings) as parent:
        parent.send(Message(topic, b"before"))
        child = os.fork()
        if child == 0:
            _write_in_child(settings, parent, topic)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        parent.send(Message(topic, b"after"))
    assert sorted(message.body for message in cluster.messages(topic)) == [b"after", b"before", b"child"]
    producers().close()


def _write_in_child(settings: ProducerConfig, parent: Producer, topic: str) -> None:
    signal.alarm(20)
    code = 1
    try:
        assert len(producers()) == 0
        with producers().use(settings) as own:
            assert own is not parent
            own.send(Message(topic, b"child"))
        producers().close()
        code = 0
    finally:
        os._exit(code)


@pytest.mark.slow
def test_they_are_closed_when_the_process_ends(namesrv, topic, cluster):
    program = f"""
        import atexit
        atexit.register(lambda: print(len(producers()), kept.is_open))  # what is registered first is called last

        from rocketpy.spark import sink
        from rocketpy.spark.producers import producers
        to = sink({topic!r}, namesrv={namesrv!r}, columns={{"value": 0}})
        to([(b"row",)])
        with producers().use(to.config.producer) as kept:
            print(len(producers()), kept.is_open)
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(program)]
    ran = subprocess.run(command, check=True, timeout=30, cwd=os.getcwd(), capture_output=True, text=True)
    assert (ran.stdout.splitlines(), ran.stderr) == (["1 True", "0 False"], "")
    assert [message.body for message in cluster.messages(topic)] == [b"row"]
