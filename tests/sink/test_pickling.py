"""What travels to the executors: settings, and nothing that is open."""

from __future__ import annotations

import pickle

import pytest

from rocketpy.errors import ConfigError
from rocketpy.spark import sink
from rocketpy.spark.producers import producers


def travelled(to):
    return pickle.loads(pickle.dumps(to))


def test_a_sink_pickles_with_its_settings_and_writes_where_it_arrives(cluster, namesrv, topic):
    to = sink(topic, namesrv=namesrv, columns={"value": 0, "keys": 1}, value_format="string", send_timeout=7.0)
    there = travelled(to)
    assert there.config == to.config
    assert there.config.producer.send_timeout == 7.0
    there([("one", "k1"), ("two", "k2")])
    assert {message.body: message.keys for message in cluster.messages(topic)} == {b"one": ("k1",), b"two": ("k2",)}


def test_copies_of_a_sink_share_a_producer(namesrv, topic):
    producers().close()
    to = sink(topic, namesrv=namesrv, columns={"value": 0})
    for each in (to, travelled(to), travelled(travelled(to))):
        each([(b"row",)])
    assert len(producers()) == 1


def test_credentials_travel(namesrv, topic):
    to = travelled(sink(topic, namesrv=namesrv, access_key="key", secret_key="secret"))
    assert to.config.producer.credentials.secret_key == "secret"


def test_name_servers_of_the_driver_count_not_those_of_the_executor(monkeypatch, namesrv, topic):
    monkeypatch.setenv("NAMESRV_ADDR", namesrv)
    pickled = pickle.dumps(sink(topic))
    monkeypatch.setenv("NAMESRV_ADDR", "elsewhere:9876")
    assert pickle.loads(pickled).config.producer.namesrv == (namesrv,)


def test_counts_are_not_known_where_nobody_brings_them_back(namesrv, topic):
    to = sink(topic, namesrv=namesrv, columns={"value": 0})
    assert to.counts == (0, 0, 0, 0)
    travelled(to)([(b"row",)])
    with pytest.raises(ConfigError, match="as under Spark Connect"):
        to.counts  # noqa: B018 - asking is what fails
