"""What Apache's command `mqadmin` shows of consumers, and does to them: lite pull consumers and those in order.

Each group has a member of Apache's and one of ours, on Apache's broker and on ours.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import ConsumeFromWhere, Message
from tests.interop import lines, probe
from tests.interop.drivers import java_lite_pull_consumer, java_push_consumer
from tests.interop.settings import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.apache import Apache, Cluster
    from tests.interop.drivers import JavaAdmin, JavaPushConsumer

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's servers and clients")]

QUEUES = 4
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
QUERY_CONSUMER_OFFSET = 14


@pytest.fixture(params=["apache", "ours"])
def place(request: pytest.FixtureRequest) -> tuple[Cluster, JavaAdmin]:
    """A cluster, and Apache's admin client on it."""
    names = ("apache_cluster", "apache_admin") if request.param == "apache" else ("our_servers", "our_admin")
    cluster, admin = (request.getfixturevalue(name) for name in names)
    return cluster, admin


def send(cluster: Cluster, topic: str, first: int, last: int) -> None:
    with rocketpy.sync.Producer("operated", namesrv=cluster.namesrv, send_timeout=10.0) as producer:
        queues = producer.queues(topic)
        for number in range(first, last):
            producer.send(Message(topic, b"%d" % number), queue=queues[number % QUEUES])


class Ours:
    """Our member, and the numbers that it has got."""

    def __init__(self, cluster: Cluster, group: str, topic: str, *, is_lite: bool, stack: ExitStack) -> None:
        self.got: list[int] = []
        settings = {"namesrv": cluster.namesrv, "consume_from_where": FIRST, "persist_consumer_offset_interval": 0.5}
        self._lite: rocketpy.sync.LitePullConsumer | None = None
        if is_lite:
            self._lite = stack.enter_context(rocketpy.sync.LitePullConsumer(group, **settings, auto_commit=False))
            self._lite.subscribe(topic)
            self._opened: rocketpy.sync.LitePullConsumer | rocketpy.sync.PushConsumer = self._lite
        else:
            push = stack.enter_context(rocketpy.sync.PushConsumer(group, **settings, orderly=True))
            push.subscribe(topic, lambda message: self.got.append(int(message.body)))
            self._opened = push
        self.client_id = self._opened.status().client_id

    @property
    def share(self) -> set[int]:
        """The numbers of its queues."""
        return {queue.queue_id for queue in self._opened.assignment if not queue.topic.startswith("%RETRY%")}

    def wait(self, wanted: Callable[[list[int]], bool]) -> None:
        """Wait until what has come is what is wanted, and commit it."""

        def look() -> bool | None:
            if self._lite is not None:
                self.got += [int(message.body) for message in self._lite.poll(timeout=0.2)]
            return wanted(self.got) or None

        probe.eventually(look, "messages of ours", 30.0)
        if self._lite is not None:
            self._lite.commit()


def java(
    apache: Apache, cluster: Cluster, group: str, topic: str, *, is_lite: bool, stack: ExitStack
) -> JavaPushConsumer:
    """Apache's member."""
    if is_lite:
        return stack.enter_context(java_lite_pull_consumer(apache, cluster.namesrv, group, topic))
    return stack.enter_context(java_push_consumer(apache, cluster.namesrv, group, topic, orderly=True))


def queues_of(said: str, topic: str) -> dict[int, list[str]]:
    """The columns behind the number of a queue, by that."""
    rows = [line.split() for line in said.splitlines() if line.startswith(topic)]
    return {int(row[2]): row[3:] for row in rows}


def committed(cluster: Cluster, group: str, topic: str) -> list[int]:
    asked = ({"consumerGroup": group, "topic": topic, "queueId": number} for number in range(QUEUES))
    answers = [probe.call(cluster.brokers[0].address, QUERY_CONSUMER_OFFSET, each) for each in asked]
    return [int(each.fields.get("offset", -1)) for each in answers]


@dataclass
class Operated:
    """A group with a member of each kind, of which each has got its half of forty messages."""

    cluster: Cluster
    admin: JavaAdmin
    topic: str
    group: str
    is_lite: bool
    ours: Ours
    members: dict[str, str]
    """The language of each by its client id."""
    committed: set[int]
    """The queues whose offsets have to be committed before they can be set back. Java's first commit takes 10 s."""

    def mqadmin(self, command: str, **options: object) -> str:
        return self.admin.mqadmin(command, n=self.cluster.namesrv, g=self.group, **options)

    def numbers(self, end: int) -> list[int]:
        """Those of our queues."""
        return [number for number in range(end) if number % QUEUES in self.ours.share]


@pytest.fixture(params=[True, False], ids=["lite pull", "in order"])
def operated(
    request: pytest.FixtureRequest, place: tuple[Cluster, JavaAdmin], apache: Apache, fresh_name: Callable[[str], str]
) -> Iterator[Operated]:
    (cluster, admin), topic, group = place, fresh_name("Operated"), fresh_name("operated-group")
    cluster.create_topic(topic, queues=QUEUES)
    with ExitStack() as stack:
        theirs = java(apache, cluster, group, topic, is_lite=request.param, stack=stack)
        ours = Ours(cluster, group, topic, is_lite=request.param, stack=stack)
        theirs.wait_share(topic, QUEUES // 2)
        probe.eventually(lambda: len(ours.share) == QUEUES // 2 or None, "our share", 30.0)
        send(cluster, topic, 0, 40)
        [ready] = theirs.of("ready")
        members = {ready["clientId"]: "JAVA", ours.client_id: "PYTHON"}
        every = admin is not request.getfixturevalue("our_admin") and not lines.of(apache.version).resets_without_offset
        committed = set(range(QUEUES)) if every else ours.share
        made = Operated(cluster, admin, topic, group, request.param, ours, members, committed)
        ours.wait(lambda got: sorted(got) == made.numbers(40))
        theirs.wait_messages(20)
        yield made


def test_PC7_an_operator_sees_a_group_of_both_kinds_and_takes_it_back(operated: Operated) -> None:
    check_members(operated)
    check_inside(operated)
    check_progress(operated)
    said = operated.mqadmin("resetOffsetByTime", t=operated.topic, s=0)
    assert dict(re.findall(r"^\S+\s+(\d)\s+(\d+)\s*$", said, re.MULTILINE)) == dict.fromkeys("0123", "0")
    send(operated.cluster, operated.topic, 40, 44)  # which ends the wait of a held pull
    operated.ours.wait(lambda got: sorted(got[20:]) == operated.numbers(44))


def check_members(operated: Operated) -> None:
    connected = operated.mqadmin("consumerConnection")
    assert dict(re.findall(r"^(\S+@\S+)\s+\S+\s+(JAVA|PYTHON)\s", connected, re.MULTILINE)) == operated.members
    assert re.search(rf"^{operated.topic}\s+\*\s*$", connected, re.MULTILINE)
    assert f"ConsumeType: CONSUME_{'ACTIVELY' if operated.is_lite else 'PASSIVELY'}" in connected
    assert "MessageModel: CLUSTERING" in connected
    status = operated.mqadmin("consumerStatus")
    assert all(each in status for each in operated.members)
    assert "Same subscription in the same group of consumer" in status
    assert "Rebalance OK" in status


def check_inside(operated: Operated) -> None:
    for jstack in (False, True):
        inside = operated.mqadmin("consumerStatus", i=operated.ours.client_id, **({"s": ""} if jstack else {}))
        details = queues_of(re.split("#Consumer MQ Detail#|#Consumer RT&TPS#", inside)[1], operated.topic)
        assert set(details) == operated.ours.share
        locked = f"locked={str(not operated.is_lite).lower()},"
        assert all(locked in " ".join(each) for each in details.values())
        assert ("#Consumer jstack#" in inside, "rocketpy" in inside.partition("jstack#")[2]) == (jstack, jstack)


def check_progress(operated: Operated) -> None:
    """How far our member has come, as the broker has it and as it does itself."""

    ours = operated.ours

    def progress() -> bool | None:
        said = operated.mqadmin("consumerProgress")
        assert "Consume TPS" in said
        queues = queues_of(said, operated.topic)
        done = {number for number, row in queues.items() if row[:3] == ["10", "10", "0"]}
        return done >= operated.committed or None

    probe.eventually(progress, "offsets to be committed", 30.0)
    told = operated.admin.run("consume_status", group=operated.group, topic=operated.topic, client=ours.client_id)
    assert told == {ours.client_id: {f"{operated.topic}:{number}": 10 for number in ours.share}}


def test_OF4_offsets_of_a_group_that_nobody_is_in(
    place: tuple[Cluster, JavaAdmin], apache: Apache, fresh_name: Callable[[str], str]
) -> None:
    """They are given to another group, and set back: in 4.x the old way, queue by queue."""
    (cluster, admin), topic = place, fresh_name("Operated")
    group, other = fresh_name("operated-group"), fresh_name("operated-group")
    cluster.create_topic(topic, queues=QUEUES)
    send(cluster, topic, 0, 8)
    with ExitStack() as stack:
        Ours(cluster, group, topic, is_lite=True, stack=stack).wait(lambda got: sorted(got) == [*range(8)])
    assert committed(cluster, group, topic) == [2] * QUEUES

    admin.mqadmin("updateSubGroup", n=cluster.namesrv, c=CLUSTER, g=other)
    said = admin.mqadmin("cloneGroupOffset", n=cluster.namesrv, s=group, d=other, t=topic)
    assert "clone group offset success" in said
    assert committed(cluster, other, topic) == [2] * QUEUES

    admin.mqadmin("resetOffsetByTime", n=cluster.namesrv, g=group, t=topic, s=0)
    assert committed(cluster, group, topic) == [0] * QUEUES
    assert "not online" in admin.mqadmin("consumerConnection", n=cluster.namesrv, g=group)
    with ExitStack() as stack:
        Ours(cluster, group, topic, is_lite=True, stack=stack).wait(lambda got: sorted(got) == [*range(8)])
    with ExitStack() as stack:
        ours = Ours(cluster, other, topic, is_lite=False, stack=stack)
        send(cluster, topic, 8, 12)
        ours.wait(lambda got: sorted(got) == [*range(8, 12)])
