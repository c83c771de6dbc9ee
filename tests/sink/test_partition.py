"""One partition: what is sent, what is counted, and how what fails is named."""

from __future__ import annotations

import pytest

from rocketpy.config import ProducerConfig
from rocketpy.errors import ConfigError, RowError, SendError
from rocketpy.spark.partition import write_partition
from rocketpy.spark.producers import producers
from rocketpy.spark.rows import RowMapping
from rocketpy.spark.settings import SinkConfig
from rocketpy.spark.task import Task
from rocketpy.sync import Message
from tests.serialization.rows import Row


@pytest.fixture
def write(namesrv, topic):
    def write(rows, *, task=None, group="partitions", producer=None, **settings):
        if "mapping" not in settings:
            settings["mapping"] = RowMapping(topic=topic)
        made = ProducerConfig(group=group, namesrv=namesrv, **(producer or {}))
        return write_partition(rows, SinkConfig(producer=made, **settings), task or Task(partition=3))

    producers().close()  # those of other folders
    return write


def rows(*values):
    return ({"value": value, "keys": f"k{number}"} for number, value in enumerate(values, 1))


@pytest.fixture
def bodies(cluster, topic):
    return lambda: sorted(message.body for message in cluster.messages(topic))


def test_everything_is_stored_when_it_returns(write, bodies):
    assert write(rows(*(b"%04d" % number for number in range(2500))), batch_size=100) == (2500, 0, 0, 10_000)
    assert bodies() == [b"%04d" % number for number in range(2500)]


def test_an_empty_partition_makes_no_producer(write):
    assert write(iter(())) == (0, 0, 0, 0)
    assert write(rows(None, None), bad_rows="skip") == (0, 0, 2, 0)
    assert len(producers()) == 0


def test_a_row_without_a_value_is_named(write, bodies):
    with pytest.raises(RowError, match=r"^row 3 of partition 3 \(keys 'k3'\): the value is null") as caught:
        write(rows(b"one", b"two", None, b"four"))
    assert (caught.value.row, caught.value.partition, caught.value.keys) == (3, 3, ("k3",))


def test_rows_without_a_value_are_passed_over_and_counted(write, bodies):
    assert write(rows(b"one", None, b"", b"four"), bad_rows="skip") == (2, 0, 2, 7)
    assert bodies() == [b"four", b"one"]


def test_what_is_wrong_with_all_rows_is_not_passed_over(write):
    with pytest.raises(RowError, match="there is no column 'value'"):
        write([Row(payload=b"one")], bad_rows="skip")


def test_the_error_of_a_function_is_the_cause(write, topic):
    def to_message(row):
        return Message(topic, b"x" * (5 // row))

    with pytest.raises(RowError, match="row 2 of partition 3: to_message failed with ZeroDivisionError") as caught:
        write([1, 0], mapping=RowMapping(function=to_message), bad_rows="skip")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("error", [EOFError("the socket of Spark"), KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_an_error_of_the_rows_themselves_comes_out_as_it_is(write, error):
    def broken():
        yield from rows(*(b"%04d" % number for number in range(500)))
        raise error

    with pytest.raises(type(error)) as caught:
        write(broken(), batch_size=10)
    assert caught.value is error
    assert write(rows(b"one")).sent == 1, "what was begun has ended, and the producer serves the next task"


# --- sends that fail --------------------------------------------------------------------------------------


def test_a_message_that_cannot_be_sent_is_named_by_its_row(write, bodies):
    values = [b"one", None, b"three", None, None, b"x" * 5000, b"seven"]
    small = {"max_message_size": 4096}
    with pytest.raises(RowError, match=r"^row 6 of partition 3 \(keys 'k6'\): its message could not be sent") as caught:
        write(rows(*values), bad_rows="skip", producer=small)
    assert isinstance(caught.value.__cause__, ConfigError)
    assert "xxx" not in str(caught.value)


def test_what_cannot_be_sent_is_given_up_and_counted(write, bodies, caplog):
    values = [b"one", None, b"x" * 5000, b"four", b"y" * 5000]
    small = {"max_message_size": 4096}
    counts = write(rows(*values), bad_rows="skip", failed_sends="count", producer=small)
    assert counts == (2, 2, 1, 7)
    assert bodies() == [b"four", b"one"]
    said = [record.getMessage() for record in caplog.records if record.name == "rocketpy.spark.partition"]
    assert said[0].startswith("giving up row 3 of partition 3 (keys 'k3')")
    assert said[1:] == ["2 rows of partition 3 could not be sent, and were counted"]


@pytest.mark.waits("what was gone is dialled again after a while, in real time")
def test_a_frame_that_is_not_acknowledged_is_named_by_its_first_row(write, cluster, topic):
    producer = {"retry_times_when_send_failed": 2}
    write(rows(b"one"), producer=producer)  # now the way is known
    cluster.stop_broker(0)
    try:
        with pytest.raises(RowError, match=r"^row 2 of partition 3 \(keys 'k2'\): its frame with 3 rows") as caught:
            write(rows(None, b"two", b"three", b"four"), bad_rows="skip", producer=producer)
    finally:
        cluster.start_broker(0)
    assert "the last of them row 4" in caught.value.reason
    assert "none of 3 attempts was acknowledged; the last of them, at broker-a: cannot connect" in caught.value.reason
    assert isinstance(caught.value.__cause__, SendError)


@pytest.mark.waits("what was gone is dialled again after a while, in real time")
def test_a_broker_that_is_started_again_is_waited_for(write, cluster, topic):
    def meanwhile():
        for number, row in enumerate(rows(*(b"%04d" % number for number in range(4000)))):
            if number == 2000:
                cluster.stop_broker(0)
            if number == 3000:
                cluster.start_broker(0)
            yield row

    assert write(meanwhile(), batch_size=100).sent == 4000
    assert {message.body for message in cluster.messages(topic)} == {b"%04d" % number for number in range(4000)}
