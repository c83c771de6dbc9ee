"""One cluster and one zygote for all cases; each case has proxies, a topic and a group of its own."""

from __future__ import annotations

import itertools
from contextlib import closing

import pytest

from rocketpy import LocalFileOffsetStore, Message, MessageQueue
from tests.ways_out.ground import Ground
from tests.ways_out.scene import SLOWNESS
from tests.ways_out.zygote import Zygote

_numbers = itertools.count()
LIMIT = 20.0
TOPICS_LAST = 20
"""So many cases share a topic; each reads all of it."""


@pytest.fixture(scope="session")
def ground():
    with Ground() as running:
        running.run(running.cluster.create_topic, "Innocent")
        yield running


@pytest.fixture(scope="session")
def wide_ground():
    """Two brokers, only the first of which is reached through a proxy."""
    with Ground(brokers=2) as running:
        running.run(running.cluster.create_topic, "Innocent")
        yield running


@pytest.fixture(scope="session")
def zygote(tmp_path_factory):
    with Zygote(tmp_path_factory.mktemp("ways-out"), SLOWNESS) as running:
        yield running


class Case:
    """Runs one case and holds what it said against what the servers know."""

    def __init__(self, ground: Ground, zygote: Zygote) -> None:
        number = next(_numbers)
        self._ground = ground
        self._zygote = zygote
        self.group = f"case-{number}"
        self.topic = f"WaysOut-{number // TOPICS_LAST}"
        ground.make_topic(self.topic)
        self.broker = ground.proxy(ground.broker())
        self.name_server = ground.proxy(ground.namesrv)

    def close(self) -> None:
        """Close the proxies, which have listened for this case alone."""
        for proxy in (self.broker, self.name_server):
            self._ground.call(proxy.close)

    def with_message(self) -> None:
        """Give it a topic of its own, with one message."""
        self.topic = f"Own-{self.group}"
        self._ground.run(self._ground.cluster.create_topic, self.topic, queues=1)
        self._ground.run(self._ground.cluster.send, Message(self.topic, b"to consume"))

    def run(self, case, *, limit=LIMIT, **args):
        place = {
            "namesrv": self._ground.namesrv,
            "broker": self._ground.broker(),
            "broker_proxy": self.broker.address,
            "name_server_proxy": self.name_server.address,
            "control": self._ground.control,
            "topic": self.topic,
            "group": self.group,
        }
        return self._zygote.run(case, {**args, "place": place}, limit=limit)

    def stored(self):
        """The numbers of the messages of this case that are in the store; twice where they are there twice."""
        bodies = self._ground.bodies(self.topic)
        return [int(body.split("/")[1]) for body in bodies if body.startswith(f"{self.group}/")]

    def committed(self):
        """How many messages the group will not get again."""
        return self._ground.consumed(self.group, self.topic) - self._ground.given_back(self.group)

    def kept(self):
        """Where the group goes on in the file of its member, which gets a broadcast; 0 if there is none."""
        found = list(self._zygote.home.glob(f".rocketmq_offsets/*/{self.group}/offsets.json"))
        if not found:
            return 0
        file = LocalFileOffsetStore(found[0])
        file.open()
        try:
            return file.read(MessageQueue(self.topic, "broker-a", 0)) or 0
        finally:
            file.close()

    def brokers_with_group(self):
        """The brokers on which the group was created."""
        return self._ground.brokers_with_group(self.group)

    def holds_locks(self):
        """Whether a member of the group holds a queue."""
        return self._ground.holds_locks(self.group)


@pytest.fixture
def case(ground, zygote):
    with closing(Case(ground, zygote)) as case:
        yield case


@pytest.fixture
def wide_case(wide_ground, zygote):
    """One that has two brokers."""
    with closing(Case(wide_ground, zygote)) as case:
        yield case
