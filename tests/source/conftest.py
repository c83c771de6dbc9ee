"""One cluster for all tests of the source that need no Spark; every test takes a topic of its own."""

from __future__ import annotations

import importlib.util
import itertools

import pytest

from rocketpy.message import MessageQueue
from rocketpy.spark.source.clients import clients
from rocketpy.spark.source.options import batch_options, stream_options
from rocketpy.sync import Message, Producer
from rocketpy_broker_sim import BlockingLocalCluster
from tests.interop.requirement import require

_numbers = itertools.count()
QUICK = {"fetchOffset.retryIntervalMs": "20"}


@pytest.fixture(autouse=True)
def no_clients_left():
    """A client that is kept for the next task would look for servers that a test has stopped."""
    yield
    clients().close()


@pytest.fixture(scope="session")
def cluster():
    with BlockingLocalCluster() as running:
        yield running


@pytest.fixture
def namesrv(cluster):
    return cluster.name_server_addresses


@pytest.fixture
def expiring():
    """A cluster that has small files, and deletes all but the last ones when it is asked to."""
    small = {"mapped_file_size_commit_log": 4096, "mapped_file_size_consume_queue": 200, "file_reserved_time": 0}
    with BlockingLocalCluster(**small, clean_resource_interval=50, delete_commit_log_files_interval=1) as cluster:
        cluster.create_topic("Expiring", queues=1)
        yield cluster


@pytest.fixture
def topic(cluster):
    name = f"Source{next(_numbers)}"
    cluster.create_topic(name, queues=2)
    return name


@pytest.fixture
def pyarrow():
    """pyarrow, where it is installed."""
    require(None if importlib.util.find_spec("pyarrow") else "no pyarrow in this environment: it is in the group test")
    import pyarrow

    return pyarrow


@pytest.fixture
def batch(namesrv, topic):
    """Makes options of a batch read of the topic."""
    return lambda **more: batch_options({"namesrv": namesrv, "subscribe": topic, **QUICK, **more})


@pytest.fixture
def stream(namesrv, topic):
    """Makes options of a stream of the topic."""
    return lambda **more: stream_options({"namesrv": namesrv, "subscribe": topic, **QUICK, **more})


@pytest.fixture
def send(namesrv):
    """Sends messages to one queue of a topic."""
    with Producer("source-tests", namesrv=namesrv) as producer:

        def to(topic, bodies, queue_id=0, **parts):
            queue = MessageQueue(topic, "broker-a", queue_id)
            return [producer.send(Message(topic, body, **parts), queue=queue) for body in bodies]

        yield to
