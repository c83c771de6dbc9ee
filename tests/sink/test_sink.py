"""The sink as a plain function of rows: no Spark, real brokers."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from rocketpy.errors import ConfigError
from rocketpy.spark import sink
from rocketpy.sync import Message


class Order(NamedTuple):
    """What a row of Spark looks like."""

    id: str
    payload: bytes


def test_every_row_becomes_a_message(cluster, namesrv, topic):
    to = sink(topic, namesrv=namesrv, columns={"value": "payload", "keys": "id"})
    assert to(iter([Order(f"k{number}", b"row %d" % number) for number in range(1000)])) is None
    found = {message.body: message.keys for message in cluster.messages(topic)}
    assert found == {b"row %d" % number: (f"k{number}",) for number in range(1000)}
    assert to.counts == (1000, 0, 0, sum(map(len, found)))


def test_a_function_makes_messages_or_passes_rows_over(cluster, namesrv, topic):
    to = sink(namesrv=namesrv, to_message=lambda row: Message(topic, b"%d" % row) if row % 3 else None)
    to(range(10))
    assert sorted(message.body for message in cluster.messages(topic)) == [b"1", b"2", b"4", b"5", b"7", b"8"]
    assert to.counts == (6, 0, 4, 6)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"instance_name": "one"}, "every Python worker of Spark is one of its own"),
        ({"bad_rows": "ignore"}, "bad_rows must be one of fail, skip"),
        ({"failed_sends": "skip"}, "failed_sends must be one of fail, count"),
        ({"batch_size": 0}, "batch_size must be between 1 and 65535"),
        ({"provenance": "yes"}, "provenance must be True or False"),
        ({"job_id": " "}, "job_id must be printable text"),
        ({"sendMsgTimeout": 3000}, "it is called send_timeout here"),
        ({"secret_key": "S3cret"}, "secret_key needs"),
    ],
)
def test_settings_are_checked_on_the_driver(settings, text):
    with pytest.raises(ConfigError, match=text) as caught:
        sink("Orders", namesrv="127.0.0.1:9876", **settings)
    assert "S3cret" not in str(caught.value)


def test_a_sink_without_name_servers_is_refused_on_the_driver(monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigError, match="the sink needs namesrv"):
        sink("Orders")


def test_the_text_of_a_sink_holds_no_keys_and_no_secrets():
    to = sink("Orders", namesrv="host:9876", access_key="An4ccess", secret_key="S3cret", security_token="T0ken")
    for text in (repr(to), str(to), repr(to.config), f"{to!r}"):
        assert "host:9876" in text
        assert not any(word in text for word in ("An4ccess", "S3cret", "T0ken"))


def test_a_data_frame_in_place_of_rows_is_refused():
    class Frame:
        def foreachPartition(self, function):
            raise AssertionError

    with pytest.raises(ConfigError, match=r"df\.foreachPartition\(sink\)"):
        sink("Orders", namesrv="127.0.0.1:9876")(Frame())
