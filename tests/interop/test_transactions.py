"""Transactions: our producers on Apache's brokers, Apache's on ours, both in one group, and stores handed over."""

from __future__ import annotations

import functools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import rocketpy.sync
from rocketpy.message import Message
from rocketpy.results import LocalTransactionState
from rocketpy.seams import wall_ms
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.message_id import decode_offset_message_id
from tests.interop import probe
from tests.interop.async_surfaces import ASYNC_SURFACES, entered, loop_of
from tests.interop.drivers import java_transactions
from tests.interop.failure import InteropError
from tests.interop.ours import our_broker, our_cluster
from tests.interop.questions import MAX, PULL, SEND_V2, message, pull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rocketpy.message import MessageExt
    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for the checks of Apache's server, in its own time")]

UPDATE_CONFIG, END = 25, 37
HASTY: dict[str, object] = {
    "transactionTimeOut": 500,
    "transactionCheckInterval": 500,
    "transactionCheckMax": 15,
    "transactionOpBatchInterval": 100,
}
"""A broker that asks soon. Apache's asks about what has ended too, until it has written that down.

It soon gives up, too: some tests leave transactions behind of which nobody knows, and others wait for the last check.
"""
PATIENT: dict[str, object] = {**HASTY, "transactionCheckMax": 10_000}
"""One that never gives up. Checks count while nobody is there who could answer, and a client may be long in coming."""
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
WITHIN = 30.0
COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
STATES = {"COMMIT_MESSAGE": COMMIT, "ROLLBACK_MESSAGE": ROLLBACK, "UNKNOW": UNKNOWN}
BODIES = [
    "0 COMMIT_MESSAGE UNKNOW",
    "1 ROLLBACK_MESSAGE COMMIT_MESSAGE",
    "2 UNKNOW COMMIT_MESSAGE",
    "3 UNKNOW ROLLBACK_MESSAGE",
    "4 raise COMMIT_MESSAGE",
]
"""A number, what the executor says, and what the checker does."""
COMMITTED = ["0", "2", "4"]


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    with our_cluster(overrides=HASTY) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def theirs(apache: Apache) -> Iterator[Cluster]:
    with apache.cluster(overrides=HASTY) as cluster:
        yield cluster


def execute(sent: Message, arg: object) -> LocalTransactionState:
    said = sent.body.decode().split()[1]
    if said == "raise":
        raise ValueError("as wanted")
    return STATES[said]


class Asked:
    """A checker that notes what it was asked."""

    def __init__(self) -> None:
        self.messages: list[MessageExt] = []

    def __call__(self, asked: MessageExt) -> LocalTransactionState:
        self.messages.append(asked)
        return STATES[asked.body.decode().split()[2]]

    @property
    def numbers(self) -> set[str]:
        return {each.body.decode()[0] for each in self.messages}


def stored(broker: str, topic: str, queue: int = 0) -> list[MessageExt]:
    """All messages of a queue."""
    found: list[MessageExt] = []
    while True:
        answer = probe.call(broker, PULL, pull(topic, queueId=queue, queueOffset=len(found)))
        if answer.code != 0:
            return found
        found += decode_messages(answer.body)


def some_stored(broker: str, topic: str) -> list[MessageExt] | None:
    """All messages of a queue, None while there are none: Apache's broker brings them into the queue a moment later."""
    return stored(broker, topic) or None


def numbers(broker: str, topic: str) -> list[str]:
    return sorted(each.body.decode()[0] for each in stored(broker, topic))


def wait_committed(broker: str, topic: str, wanted: list[str]) -> None:
    """Wait until these and no others are there."""

    def look() -> bool | None:
        return numbers(broker, topic) == wanted or None

    try:
        probe.eventually(look, f"{wanted} in {topic}", WITHIN)
    except InteropError as exc:
        exc.add_note(f"there are {numbers(broker, topic)}")
        raise


def wait_settled(broker: str) -> None:
    """Wait until no transaction is checked any more: the half topic does not grow during two checks."""

    def size() -> int:
        return int(probe.call(broker, MAX, {"topic": HALF, "queueId": 0}).fields["offset"])

    last = [size(), threading.Event()]

    def stands() -> bool | None:
        last[1].wait(1.2)
        before, last[0] = last[0], size()
        return before == last[0] or None

    probe.eventually(stands, "the half topic to stand", WITHIN)


# --- the wire ----------------------------------------------------------------------------------------------


def test_TX1_TX2_javas_producer_on_our_broker(apache: Apache, ours: Cluster, fresh_name: Callable[[str], str]) -> None:
    topic, broker = fresh_name("Java-transactions"), ours.brokers[0].address
    ours.create_topic(topic, queues=1)
    with java_transactions(apache, ours.namesrv, fresh_name("java-tx"), topic, BODIES) as producer:
        wait_committed(broker, topic, COMMITTED)
        checked = producer.wait("checked", 3)
        sent = {each["body"][0]: each for each in producer.wait("sent", 5)}
        assert [sent[str(n)]["localState"] for n in range(5)] == [
            "COMMIT_MESSAGE",
            "ROLLBACK_MESSAGE",
            "UNKNOW",
            "UNKNOW",
            "UNKNOW",
        ]
        assert {each["body"][0] for each in checked} == {"2", "3", "4"}
        for each in checked:
            assert each["transactionId"] == sent[each["body"][0]]["msgId"]
            assert (each["topic"], each["properties"]["TAGS"]) == (topic, "red")
            assert int(each["properties"]["TRANSACTION_CHECK_TIMES"]) >= 1
        wait_settled(broker)
        assert len(producer.of("checked")) == 3
        producer.finish()
    assert numbers(broker, topic) == COMMITTED


@pytest.mark.parametrize("surface", ["blocking", *ASYNC_SURFACES])
def test_TX1_TX2_our_producer_on_apaches_broker(
    apache: Apache, theirs: Cluster, fresh_name: Callable[[str], str], surface: str
) -> None:
    topic, broker, asked = fresh_name("Our-transactions"), theirs.brokers[0].address, Asked()
    theirs.create_topic(topic, queues=1)
    group = fresh_name("our-tx")
    with sending(surface, group, theirs.namesrv, asked) as send:
        results = [send(Message(topic, body.encode(), tags="red")) for body in BODIES]
        assert [each.local_state for each in results] == [COMMIT, ROLLBACK, UNKNOWN, UNKNOWN, UNKNOWN]
        assert isinstance(results[4].error, ValueError)
        wait_committed(broker, topic, COMMITTED)
        wait_settled(broker)
    assert asked.numbers == {"2", "3", "4"}
    ids = {each.transaction_id for each in results}
    assert {each.transaction_id for each in asked.messages} < ids
    assert {each.topic for each in asked.messages} == {topic}
    assert numbers(broker, topic) == COMMITTED


@contextmanager
def sending(surface: str, group: str, namesrv: str, asked: Asked) -> Iterator[Callable[[Message], Any]]:
    """A producer of ours of a surface, as a function that sends."""
    if surface == "blocking":
        with rocketpy.sync.TransactionProducer(group, checker=asked, executor=execute, namesrv=namesrv) as producer:
            yield producer.send_in_transaction
        return
    settings = {"checker": asked, "executor": execute, "namesrv": namesrv}
    with (
        loop_of(surface) as loop,
        entered(loop, surface, lambda module: module.TransactionProducer(group, **settings)) as producer,
    ):
        yield functools.partial(loop.call, producer.send_in_transaction)


@pytest.mark.parametrize("where", ["ours", "theirs"])
def test_TX2_any_member_of_a_mixed_group_is_asked(
    apache: Apache, ours: Cluster, theirs: Cluster, fresh_name: Callable[[str], str], where: str
) -> None:
    cluster = ours if where == "ours" else theirs
    topic, group, broker, asked = fresh_name("Mixed"), fresh_name("mixed"), cluster.brokers[0].address, Asked()
    cluster.create_topic(topic, queues=1)
    bodies = [f"{number} UNKNOW COMMIT_MESSAGE" for number in range(6)]
    settings = {"namesrv": cluster.namesrv, "topics": [topic]}
    with rocketpy.sync.TransactionProducer(group, checker=asked, **settings) as producer:
        with java_transactions(apache, cluster.namesrv, group, topic, bodies[:3]) as java:
            for body in bodies[3:]:
                producer.send_in_transaction(Message(topic, body.encode()), lambda sent, arg: UNKNOWN)
            wait_committed(broker, topic, [body[0] for body in bodies])
            java.process.kill()
        more = ["6 UNKNOW COMMIT_MESSAGE", "7 UNKNOW COMMIT_MESSAGE"]
        for body in more:
            producer.send_in_transaction(Message(topic, body.encode()), lambda sent, arg: UNKNOWN)
        wait_committed(broker, topic, [body[0] for body in bodies + more])
    assert asked.numbers >= {"6", "7"}


def test_TX2_java_takes_over_from_ours(apache: Apache, fresh_name: Callable[[str], str]) -> None:
    topic, group = fresh_name("Left"), fresh_name("left")
    with our_cluster(overrides=PATIENT) as cluster:
        cluster.create_topic(topic, queues=1)
        with rocketpy.sync.TransactionProducer(group, checker=lambda m: UNKNOWN, namesrv=cluster.namesrv) as producer:
            producer.send_in_transaction(Message(topic, b"0 - COMMIT_MESSAGE"), lambda sent, arg: UNKNOWN)
        # Java's producer is known to a broker when it has sent there.
        with java_transactions(apache, cluster.namesrv, group, topic, ["1 COMMIT_MESSAGE UNKNOW"]) as java:
            wait_committed(cluster.brokers[0].address, topic, ["0", "1"])
            assert java.wait("checked")[-1]["said"] == "COMMIT_MESSAGE"


# --- what brokers answer -------------------------------------------------------------------------------------


def half(broker: str, topic: str, unique: str, **properties: str) -> dict[str, object]:
    """Store a half message; the fields that end it."""
    given = {"TRAN_MSG": "true", "PGROUP": "raw", "UNIQ_KEY": unique, **properties}
    text = "".join(f"{name}\x01{value}\x02" for name, value in given.items())
    answer = probe.call(broker, SEND_V2, message(topic, i=text, g=wall_ms()), b"9")
    assert answer.code == 0, answer.remark
    return {
        "producerGroup": "raw",
        "tranStateTableOffset": answer.fields["queueOffset"],
        "commitLogOffset": decode_offset_message_id(answer.fields["msgId"]).offset,
        "msgId": unique,
        "transactionId": unique,
        "fromTransactionCheck": "false",
    }


def test_TX4_both_brokers_answer_ends_alike(
    apache: Apache, ours: Cluster, theirs: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, said = fresh_name("Ends"), {}
    for cluster in (ours, theirs):
        cluster.create_topic(topic, queues=1)
        said[cluster is ours] = answers(cluster.brokers[0].address, topic)
    if apache.version == "4.9.7":  # it knows no time that a message may ask for
        said[True]["late"] = said[False]["late"]
    assert said[True] == said[False]


def answers(broker: str, topic: str) -> dict[str, tuple[int, str | None]]:
    """Code and remark for ends, good and bad."""
    place = half(broker, topic, "0A" * 16)
    changes: dict[str, dict[str, object]] = {
        "wrong group": {"producerGroup": "other"},
        "wrong offset": {"tranStateTableOffset": int(str(place["tranStateTableOffset"])) + 1},
        "nowhere": {"commitLogOffset": 1 << 40},
        "good": {},
    }
    found = {}
    for name, change in changes.items():
        for how in (12, 8) if name != "good" else (8,):
            answer = probe.call(broker, END, {**place, **change, "commitOrRollback": how})
            found[f"{name} {how}"] = answer.code, answer.remark if answer.code == 1 else None
    rolled = half(broker, topic, "0B" * 16)
    answer = probe.call(broker, END, {**rolled, "commitOrRollback": 12})
    found["rollback"] = answer.code, None
    late = half(broker, topic, "0C" * 16, CHECK_IMMUNITY_TIME_IN_SECONDS="0")
    threading.Event().wait(0.7)
    answer = probe.call(broker, END, {**late, "commitOrRollback": 8})
    found["late"] = answer.code, None
    return found


def test_both_brokers_refuse_transactions_alike(
    apache: Apache, ours: Cluster, theirs: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, said = fresh_name("Refused"), []
    for cluster in (ours, theirs):
        cluster.create_topic(topic, queues=1)
        broker = cluster.brokers[0].address
        with refusing(broker):
            answer = probe.call(broker, SEND_V2, message(topic, i="TRAN_MSG\x01true\x02PGROUP\x01p\x02"), b"x")
        said.append((answer.code, answer.remark))
        assert stored(broker, topic) == []
    assert said[0] == said[1]
    assert said[0][0] == 16


@contextmanager
def refusing(broker: str) -> Iterator[None]:
    """Have a broker refuse transactions for a while."""
    try:
        set_refusing(broker, "true")
        yield
    finally:
        set_refusing(broker, "false")


def set_refusing(broker: str, value: str) -> None:
    answer = probe.call(broker, UPDATE_CONFIG, body=f"rejectTransactionMessage={value}\n".encode())
    assert answer.code == 0, answer.remark


def test_both_brokers_store_the_same(
    apache: Apache, ours: Cluster, theirs: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic, found = fresh_name("Stored"), []
    for cluster in (ours, theirs):
        broker = cluster.brokers[0].address
        cluster.create_topic(topic, queues=1)
        first = int(probe.call(broker, MAX, {"topic": HALF, "queueId": 0}).fields["offset"])
        place = half(broker, topic, "0D" * 16, TAGS="red", shop="north")
        assert probe.call(broker, END, {**place, "commitOrRollback": 8}).code == 0
        committed, *more = probe.eventually(
            functools.partial(some_stored, broker, topic), f"a message in {topic}", WITHIN
        )
        assert more == []
        # Apache's 4.9.7 serves no pull of half messages until its first check has created their topic.
        before = probe.eventually(functools.partial(half_stored, broker, first, "0D" * 16), "a half message", WITHIN)
        assert committed.prepared_transaction_offset == before.commit_log_offset
        properties = {**committed.wire_properties}
        properties.pop("__CRC32#", None)
        assert properties.keys() == {**before.wire_properties}.keys() - {"__CRC32#"}
        found.append((properties, committed.sys_flag, before.sys_flag, committed.flag))
    if apache.version == "4.9.7":
        for name in ("__transactionId__", "MSG_REGION", "TRACE_ON"):
            del found[0][0][name]
    assert found[0] == found[1]


def half_stored(broker: str, offset: int, message_id: str) -> MessageExt | None:
    """The half message of this id, once the broker gives it out."""
    found = [each for each in stored_from(broker, HALF, offset) if each.message_id == message_id]
    assert len(found) <= 1
    return found[0] if found else None


def stored_from(broker: str, topic: str, offset: int) -> list[MessageExt]:
    answer = probe.call(broker, PULL, pull(topic, queueId=0, queueOffset=offset))
    return decode_messages(answer.body) if answer.code == 0 else []


# --- stores that change hands ----------------------------------------------------------------------------------

LATER: dict[str, object] = {
    "transactionTimeOut": 3_600_000,
    "transactionCheckInterval": 3_600_000,
    "transactionOpBatchInterval": 100,
}
"""The settings of a broker that never checks."""
KEPT: dict[str, object] = {"flushConsumerOffsetInterval": 200, "mappedFileSizeCommitLog": 262_144}


class Handed:
    """A store that is opened by one broker after the other, and the outcome of the transactions in it."""

    def __init__(self, apache: Apache, namesrv: str, fresh_name: Callable[[str], str], home: Path) -> None:
        self.apache = apache
        self.namesrv = namesrv
        self.topic, self.group = fresh_name("Handed"), fresh_name("handed")
        self.home = home
        self.asked = Asked()
        self._name = fresh_name("handed-broker")

    @contextmanager
    def ours(self, settings: dict[str, object], *, kill: bool = False) -> Iterator[str]:
        """Our broker on it, which is stopped in order or killed."""
        with our_broker(self.namesrv, name=self._name, home=self.home, overrides={**KEPT, **settings}) as broker:
            yield broker.address
            if kill:
                broker.process.kill()

    @contextmanager
    def theirs(self, settings: dict[str, object]) -> Iterator[str]:
        """Apache's broker on it, which is killed: it takes eleven seconds to stop in order."""
        overrides = {**KEPT, **settings}
        with self.apache.broker(self.namesrv, name=self._name, home=self.home, overrides=overrides) as broker:
            yield broker.address
            broker.process.kill()

    def begin(self, broker: str) -> None:
        """Send what ends at once, and what does not."""
        probe.create_topic(broker, self.topic, queues=1)
        probe.wait_route(self.namesrv, self.topic)
        with rocketpy.sync.TransactionProducer(self.group, checker=Asked(), namesrv=self.namesrv) as producer:
            for body in BODIES:
                producer.send_in_transaction(Message(self.topic, body.encode()), execute)
            wait_committed(broker, self.topic, ["0"])
        self.wait_ends(broker)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """A producer of the group that answers."""
        settings = {"namesrv": self.namesrv, "topics": [self.topic]}
        with rocketpy.sync.TransactionProducer(self.group, checker=self.asked, **settings):
            yield

    def end(self, broker: str) -> None:
        """What had not ended is asked about, and nothing else."""
        with self.answering():
            wait_committed(broker, self.topic, COMMITTED)
            wait_settled(broker)
        assert self.asked.numbers == {"2", "3", "4"}
        self.wait_ends(broker)

    def stand(self, broker: str) -> None:
        """No transaction is checked any more."""
        before = len(self.asked.messages)
        with self.answering():
            wait_settled(broker)
        assert len(self.asked.messages) == before
        assert numbers(broker, self.topic) == COMMITTED

    @staticmethod
    def wait_ends(broker: str) -> None:
        """Wait until what has ended is written down, and how far the broker is."""
        offset = functools.partial(probe.call, broker, MAX, {"topic": OP, "queueId": 0})
        probe.eventually(lambda: int(offset().fields["offset"]) or None, "the ends", WITHIN)
        threading.Event().wait(0.7)


def test_a_store_with_half_messages_of_apaches_broker(
    apache: Apache, ours: Cluster, fresh_name: Callable[[str], str], tmp_path: Path
) -> None:
    handed = Handed(apache, ours.namesrv, fresh_name, tmp_path)
    with handed.theirs(LATER) as broker:
        handed.begin(broker)
    with handed.ours(PATIENT) as broker:
        handed.end(broker)
    with handed.theirs(PATIENT) as broker:
        handed.stand(broker)


@pytest.mark.one_line("5.3.3", "4.9.7 reads no list of ends, neither ours nor that of 5.3.3")
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_store_with_half_messages_of_ours(
    apache: Apache, ours: Cluster, fresh_name: Callable[[str], str], tmp_path: Path, kill: bool
) -> None:
    handed = Handed(apache, ours.namesrv, fresh_name, tmp_path)
    with handed.ours(LATER, kill=kill) as broker:
        handed.begin(broker)
    with handed.theirs(PATIENT) as broker:
        handed.end(broker)
    with handed.ours(PATIENT) as broker:
        handed.stand(broker)
