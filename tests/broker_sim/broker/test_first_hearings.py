"""Who waits together until the name servers have heard of a new topic."""

from __future__ import annotations

from collections.abc import Callable

from rocketpy_broker_sim.broker.hearing import FirstHearings


class Hear:
    """Remembers what name servers have yet to hear of."""

    def __init__(self) -> None:
        self.due: list[Callable[[], object]] = []

    def __call__(self, topic: str, done: Callable[[], object]) -> None:
        self.due.append(done)


def test_those_who_come_before_the_name_servers_have_heard_wait_with_the_first() -> None:
    hear, heard = Hear(), []
    first = FirstHearings(hear)
    assert not first.join("T", lambda: heard.append(0))
    first.made("T", lambda: heard.append(1))
    assert first.join("T", lambda: heard.append(2))
    hear.due[0]()
    assert heard == [1, 2]
    assert not first.join("T", lambda: heard.append(3))


def test_a_topic_that_is_deleted_and_made_again_meanwhile_has_its_own_who_wait() -> None:
    hear, heard = Hear(), []
    first = FirstHearings(hear)
    first.made("T", lambda: heard.append(1))
    first.made("T", lambda: heard.append(2))
    assert first.join("T", lambda: heard.append(3))
    hear.due[0]()
    assert heard == [1]
    assert first.join("T", lambda: heard.append(4))
    hear.due[1]()
    assert heard == [1, 2, 3, 4]
