"""Sends during which a broker is killed: the last one may be stored or not, and the next broker on the store knows."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

from tests.interop import probe
from tests.interop.questions import MAX, SEND_V2, message
from tests.interop.stores.handover import ORDERS, PLACE, WITHIN, Sent, end, properties_of, pulled

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE: PLACE = (ORDERS, 0)
SOME = 30


class Hammer(threading.Thread):
    """Sends to one queue, one message after the other, until the broker is gone.

    Attributes:
        acknowledged: Set after some sends.
    """

    def __init__(self, broker: str, sent: Sent, stay: str) -> None:
        super().__init__(name=f"hammer-{stay}", daemon=True)
        self.acknowledged = threading.Event()
        self._broker = broker
        self._sent = sent
        self._stay = stay

    def run(self) -> None:
        for number in itertools.count():
            body, keys = f"{self._stay} during {number} ".encode() * 20, [f"{self._stay}-during-{number}"]
            fields = message(*QUEUE, i=properties_of(self._stay, 2000 + number, keys))
            try:
                answer = probe.call(self._broker, SEND_V2, fields, body, timeout=30)
            except OSError:
                self._sent.unknown = (body, keys)
                return
            self._sent.note(ORDERS, answer, [(body, keys)])
            if number == SOME:
                self.acknowledged.set()

    def kill(self, kill: Callable[[], object]) -> None:
        """Have the broker killed during the sends."""
        self.start()
        assert self.acknowledged.wait(WITHIN)
        kill()
        self.join()


def find_out(broker: str, sent: Sent) -> None:
    """Ask the next broker whether the send during which its predecessor was killed was stored."""
    if sent.unknown is None:
        return
    (body, keys), sent.unknown = sent.unknown, None
    known = sent.bodies[QUEUE]
    if end(broker, MAX, QUEUE) == len(known):
        return
    (last,) = [each for each, _ in pulled(broker, QUEUE, len(known))]
    assert last.body == body
    known.append(body)
    for key in keys:
        sent.keys[ORDERS, key] = [last.commit_log_offset]
