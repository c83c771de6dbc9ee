"""Who waits together until the name servers know a new topic."""

from __future__ import annotations

from collections.abc import Callable

from rocketpy_broker_sim.broker.name_servers.topic_announcement import NewTopics


class Announce:
    """Remembers what the name servers do not know yet."""

    def __init__(self) -> None:
        self.due: list[Callable[[], object]] = []

    def __call__(self, topic: str, done: Callable[[], object]) -> None:
        self.due.append(done)


def test_those_who_come_before_the_name_servers_know_a_topic_wait_with_the_first() -> None:
    announce, announced = Announce(), []
    topics = NewTopics(announce)
    assert not topics.join("T", lambda: announced.append(0))
    topics.made("T", lambda: announced.append(1))
    assert topics.join("T", lambda: announced.append(2))
    announce.due[0]()
    assert announced == [1, 2]
    assert not topics.join("T", lambda: announced.append(3))


def test_a_topic_that_is_deleted_and_made_again_meanwhile_has_its_own_who_wait() -> None:
    announce, announced = Announce(), []
    topics = NewTopics(announce)
    topics.made("T", lambda: announced.append(1))
    topics.made("T", lambda: announced.append(2))
    assert topics.join("T", lambda: announced.append(3))
    announce.due[0]()
    assert announced == [1]
    assert topics.join("T", lambda: announced.append(4))
    announce.due[1]()
    assert announced == [1, 2, 3, 4]
