"""The topic of the markers: what one process writes there, others read."""

from __future__ import annotations

import itertools
import pickle
import shutil
import threading

import pytest

from rocketpy.config import ProducerConfig
from rocketpy.errors import RocketMQError, TopicNotFoundError
from rocketpy.spark.delivery import marker_log as module
from rocketpy.spark.delivery.marker_log import MarkerLog
from rocketpy.spark.delivery.markers import BatchId, Writer
from rocketpy.spark.producers import producers
from rocketpy.spark.source.clients import clients
from rocketpy.sync import Admin, Message, Producer
from rocketpy_broker_sim import BlockingLocalCluster

BATCH = BatchId(Writer("query-1", "Orders"), 3)
_numbers = itertools.count()


@pytest.fixture
def name():
    return f"Markers{next(_numbers)}"


@pytest.fixture
def log(namesrv, name):
    """Makes logs that know nothing of one another, as those of different processes."""
    return lambda: MarkerLog(ProducerConfig(group="markers", namesrv=namesrv), name)


@pytest.fixture
def ready(log):
    made = log()
    made.prepare()
    return made


def test_the_topic_is_made_with_one_queue_on_each_broker(ready, cluster, name):
    assert ready.read_on().markers.committed == {}
    ready.prepare()
    with Producer("markers", namesrv=cluster.name_server_addresses) as producer:
        assert [queue.queue_id for queue in producer.queues(name)] == [0]


def test_a_marker_is_read_by_others(ready, log):
    other = log()
    assert not other.read_on().markers.is_committed(BATCH)
    ready.commit(BATCH, "r", {0: 4})
    assert other.read_on().markers.is_committed(BATCH)
    assert log().read_on().markers.is_committed(BATCH)


def test_a_log_goes_on_from_what_the_driver_has_read(ready, log, monkeypatch):
    ready.commit(BATCH, "r")
    state = pickle.loads(pickle.dumps(ready.read_on()))
    taken = []
    monkeypatch.setattr(module, "read", lambda client, options, ranges, take: taken.extend(ranges))
    there = log()
    there.adopt(state)
    assert there.state() == state
    assert there.read_on().markers.is_committed(BATCH)
    assert [each.size for each in taken] == [0], "nothing is read twice"
    there.adopt(log().state())
    assert there.state() == state, "what it has read itself counts more"


def test_an_attempt_sees_those_before_it(ready, log):
    first, _ = ready.begin(BATCH, "r1", 2)
    second, markers = log().begin(BATCH, "r2", 2)
    begun = markers.begun[BATCH]
    assert [(each.partition, each.run, each.marker) for each in begun] == [(2, "r1", first), (2, "r2", second)]
    assert begun[0].time <= begun[1].time


def test_of_two_attempts_at_the_same_time_one_sees_the_other(ready, log):
    sees = []

    def attempt(number):
        marker, markers = log().begin(BatchId(BATCH.writer, number), "r", 0)
        sees.append((number, any(each.marker != marker for each in markers.begun[BatchId(BATCH.writer, number)])))

    threads = [threading.Thread(target=attempt, args=(number,)) for number in range(10) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sees) == 20
    assert {number for number, another in sees if another} == set(range(10))


def test_drivers_that_race_leave_the_last_micro_batch(ready, log):
    """Two drivers with one checkpoint are not kept apart, but a marker never goes back."""
    writer = BATCH.writer
    threads = [
        threading.Thread(target=log().commit, args=(BatchId(writer, number), "r")) for number in (5, 1, 7, 3, 7, 2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log().read_on().markers.committed[writer].number == 7


def test_other_messages_in_the_topic_do_no_harm(ready, log, cluster, name):
    with Producer("others", namesrv=cluster.name_server_addresses) as producer:
        producer.send(Message(name, b"hello", tags="commit"))
    ready.commit(BATCH, "r")
    assert log().read_on().markers.is_committed(BATCH)


def test_a_topic_that_was_made_again_is_read_from_its_beginning(ready, log, name):
    ready.commit(BATCH, "r")
    state = ready.read_on()
    far = module.LogState({queue: offset + 1000 for queue, offset in state.positions.items()}, state.markers)
    there = log()
    there.adopt(far)
    assert there.read_on().positions == state.positions


@pytest.mark.waits("what cannot be read is read again after a while, in the loop of the portal")
def test_a_task_does_not_take_a_missing_topic_for_an_empty_one(log, name, monkeypatch):
    made = log()
    monkeypatch.setattr(made, "_options", module.attrs.evolve(made._options, retries=1, retry_interval=0.01))
    with pytest.raises(TopicNotFoundError) as caught:
        made.read_on()
    assert f"while reading the topic {name}, which has the markers of sinks" in caught.value.__notes__


def test_a_marker_that_cannot_be_read_is_an_error(ready, monkeypatch):
    monkeypatch.setattr(module, "_VISIBLE_WITHIN", 0.01)
    monkeypatch.setattr(ready, "read_on", lambda: module.LogState({}, module.Markers()))
    with pytest.raises(RocketMQError, match=r"cannot be read: give the topic .* as many read queues as write queues"):
        ready.begin(BATCH, "r", 0)


def test_a_marker_that_cannot_be_stored_says_so(ready, cluster):
    cluster.refuse_sends(100, code=13)
    try:
        with pytest.raises(RocketMQError) as caught:
            ready.commit(BATCH, "r")
    finally:
        cluster.heal()
    assert any("while writing the topic" in note for note in caught.value.__notes__)


# --- a topic that is gone ---------------------------------------------------------------------------------


@pytest.fixture
def delete(namesrv, name):
    def now():
        with Admin(namesrv=namesrv) as admin:
            admin.topics.delete(name)

    return now


@pytest.fixture(params=["clients are open", "clients were idle"])
def after_a_while(request):
    """Whether the clients of this process still have the routes of before, or had been closed for want of use."""

    def closing():
        if request.param == "clients were idle":
            clients().close()
            producers().close()

    return closing


def driven(log):
    """What a driver does before each micro-batch."""
    log.prepare()
    return log.read_on(check=True)


def test_a_topic_that_was_deleted_is_created_again(ready, log, delete, after_a_while, caplog):
    ready.commit(BATCH, "r")
    assert driven(ready).markers.is_committed(BATCH)
    delete()
    after_a_while()
    state = driven(ready)
    assert list(state.positions.values()) == [0]
    assert not state.markers.is_committed(BATCH), "nobody else can know it"
    assert "is gone, and is created again" in caplog.text
    ready.commit(BATCH, "r")
    assert driven(ready).markers.is_committed(BATCH)
    assert log().read_on().markers.is_committed(BATCH)


def test_servers_that_take_the_place_of_others(after_a_while, tmp_path):
    """At the same addresses, and with nothing of what the others had stored."""
    with BlockingLocalCluster(data=tmp_path / "data", auto_create_topic_enable=False) as cluster:
        log = MarkerLog(ProducerConfig(group="markers", namesrv=cluster.name_server_addresses), "Markers")
        driven(log)
        log.commit(BATCH, "r")
        assert driven(log).markers.is_committed(BATCH)
        where = cluster.name_server_addresses, cluster.broker_addresses
        cluster.close()
        shutil.rmtree(tmp_path / "data")
        cluster.start()
        assert (cluster.name_server_addresses, cluster.broker_addresses) == where
        after_a_while()
        assert not driven(log).markers.is_committed(BATCH)
        log.commit(BATCH, "r")
        assert driven(log).markers.is_committed(BATCH)
        producers().close()
        clients().close()


def test_a_topic_has_as_many_queues_again_as_before(log, delete, cluster, name):
    cluster.create_topic(name, queues=3)
    made = log()
    driven(made)
    delete()
    assert len(driven(made).positions) == 3


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_topic_that_another_driver_has_made_again_is_noticed(ready, log, delete, more, caplog):
    """However much the other has stored: less than there was, as much, or more."""
    for number in range(2):
        ready.commit(BatchId(BATCH.writer, number), "r")
    before = driven(ready)
    delete()
    other = log()
    other.prepare()
    new = Writer("query-2", "Orders")
    for number in range(1 + more):
        other.commit(BatchId(new, number), "r")
    after = driven(ready)
    assert "made again, and is read from the beginning" in caplog.text
    assert after.origin != before.origin
    assert {writer: each.number for writer, each in after.markers.committed.items()} == {new: more}


def test_a_topic_that_is_as_it_was_is_not_read_again(ready, log, caplog):
    ready.begin(BATCH, "r1", 0)
    before = driven(ready)
    log().begin(BATCH, "r2", 0)
    after = driven(ready)
    assert [each.run for each in after.markers.begun[BATCH]] == ["r1", "r2"], "each once"
    assert driven(ready) == after
    assert after.origin == before.origin
    assert "of the markers" not in caplog.text


def test_messages_that_were_too_old_to_be_kept_are_not_missed(ready, monkeypatch):
    ready.commit(BATCH, "r")
    before = driven(ready)
    ends = dict(before.positions)
    monkeypatch.setattr(module.Brokers, "bounds", lambda *_: {queue: (end, end) for queue, end in ends.items()})
    assert driven(ready) == before


def test_a_task_goes_by_what_its_driver_has_found_in_the_new_topic(ready, log, delete):
    """Its process has read the old one, and knows of more markers than there are now."""
    ready.commit(BATCH, "r")
    there = log()
    there.adopt(driven(ready))
    there.begin(BatchId(BATCH.writer, 4), "r", 0)
    delete()
    new = driven(ready)
    there.adopt(new)
    assert there.state() == new
    _, markers = there.begin(BATCH, "r", 0)
    assert [each.partition for each in markers.begun[BATCH]] == [0]


def test_a_broker_that_is_away_is_no_reason_to_forget(after_a_while, caplog):
    """While it is, the name servers do not know the topic either, and there is no broker to create it on."""
    with BlockingLocalCluster() as cluster:
        log = MarkerLog(ProducerConfig(group="markers", namesrv=cluster.name_server_addresses), "Markers")
        driven(log)
        log.commit(BATCH, "r")
        before = driven(log)
        cluster.stop_broker(0)
        after_a_while()
        log.prepare()
        assert "cannot be created now" in caplog.text
        assert log.state() == before
        cluster.start_broker(0)
        assert driven(log) == before
        producers().close()
        clients().close()
