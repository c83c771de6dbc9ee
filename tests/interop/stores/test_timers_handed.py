"""A store with waiting timer messages, opened in turn by brokers of both kinds."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import Message
from tests.interop import probe
from tests.interop.ours import our_broker
from tests.interop.stores import handover

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.interop.apache import Apache
    from tests.interop.servers import Server

pytestmark = [
    pytest.mark.interop,
    pytest.mark.one_line("5.3.3", "4.9.7 has no timer"),
    pytest.mark.waits("for Apache's broker, and for real timers"),
]

TOPIC, NAME = "Timed", "broker-timed"
SETTINGS = {
    "recallMessageEnable": True,
    "mappedFileSizeTimerLog": 1040,
    "timerFlushIntervalMs": 1_000,
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 1_000,
    "maxHashSlotNum": 100,
    "maxIndexNum": 400,
    "timerRollWindowSlot": 6,
}
"""So few slots ahead that a message of this test goes through the timer more than once."""
LAST = 19
"""Seconds until the last message of a stay is due that is not for the next one to recall."""
HANDED = (25, 50, 90)
"""Seconds until messages for the next stay to recall are due: it may be a while until that broker runs."""
SOON = 8
"""A recall that begins so many seconds before its message is due may be too late."""


class Handed:
    """The store, what was put into it, and who holds it in turn."""

    def __init__(self, apache: Apache, namesrv: str, home: Path) -> None:
        self.apache, self.namesrv, self.home = apache, namesrv, home
        self.due: dict[str, float] = {}
        self.recalled: set[str] = set()
        self.distant: set[str] = set()
        self.handles: list[tuple[str, str]] = []
        self.killed = False

    def held(self, who: str) -> AbstractContextManager[Server]:
        if who == "apache":
            return self.apache.broker(self.namesrv, name=NAME, home=self.home, overrides=SETTINGS)
        return our_broker(self.namesrv, name=NAME, home=self.home, overrides=SETTINGS)

    @contextmanager
    def stay(self, who: str, *, handed: Sequence[float] = (), kill: bool = False) -> Iterator[None]:
        """Run a broker on the store: send, recall, and stop or kill it in the middle of a second."""
        with (
            self.held(who) as broker,
            rocketpy.sync.Producer("timers", namesrv=self.namesrv, send_timeout=10) as producer,
        ):
            if not self.due:
                probe.create_topic(broker.address, TOPIC, queues=1)
            probe.wait_route(self.namesrv, TOPIC)
            self._recall_handed(producer)
            for seconds in (0.7, 1.6, 2.3, 9, 14, 14.5, 18, LAST):
                self._send(producer, seconds)
            key, handle = self._send(producer, 13)
            producer.recall(TOPIC, handle)
            self.recalled.add(key)
            self.handles = [self._send(producer, seconds) for seconds in handed]
            time.sleep(2.1)
            yield
            self.look(broker.address)
            self.killed |= kill
            if kill:
                time.sleep(1.1)  # until what was sent is flushed: what a broker may lose is no matter of this test
                broker.process.kill()

    def _recall_handed(self, producer: rocketpy.sync.Producer) -> None:
        """Recall what the stay before sent for that, but for what is due by now: that is delivered as any other."""
        keys = []
        for key, handle in self.handles:
            if self.due[key] > time.time() + SOON:
                producer.recall(TOPIC, handle)
                keys.append(key)
        assert keys or not self.handles, "nothing is left to be recalled"
        self.recalled.update(keys)
        self.distant.update(keys[1:])

    def _send(self, producer: rocketpy.sync.Producer, seconds: float) -> tuple[str, str]:
        moment = time.time() + seconds
        result = producer.send(Message(TOPIC, b"x", deliver_at=round(moment * 1000)))
        # Without a handle it is due already: the broker was so slow.
        assert result.recall_handle is not None or time.time() >= moment - 0.001
        self.due[result.message_id] = moment
        return result.message_id, result.recall_handle or ""

    def look(self, broker: str) -> list[str]:
        """What was delivered: nothing early, nothing that was recalled, nothing twice where nobody was killed."""
        found: list[str] = []
        for message, _ in handover.pulled(broker, (TOPIC, 0)):
            found.append(message.message_id)
            assert message.store_timestamp >= self.due[message.message_id] * 1000 - 1
        assert not self.recalled & set(found)
        assert self.killed or len(set(found)) == len(found)
        return found

    def end(self) -> None:
        """All messages that were not recalled are delivered in the end.

        The first that each stay recalled would have come by then. Nobody waits for its others, which are due later.
        """
        last = max(moment for key, moment in self.due.items() if key not in self.distant)
        with self.held("ours") as broker:
            time.sleep(max(0.0, last - time.time()) + 1)
            wanted = self.due.keys() - self.recalled

            def came() -> bool | None:
                return set(self.look(broker.address)) >= wanted or None

            probe.eventually(came, f"{len(wanted)} timer messages", handover.WITHIN)


@pytest.mark.parametrize(("first", "kill"), [("ours", False), ("apache", True)], ids=["stopped", "killed"])
def test_DL3_DL4_DL5_timer_messages_wait_in_a_store_that_is_handed_over(
    apache: Apache, tmp_path: Path, first: str, kill: bool
) -> None:
    second = "apache" if first == "ours" else "ours"
    with apache.name_server() as server:
        handed = Handed(apache, server.address, tmp_path)
        for who, handles in ((first, HANDED), (second, ())):
            with handed.stay(who, handed=handles, kill=kill):
                pass
        handed.end()
