"""Where groups without offsets begin: Java's push consumers and ours beside each other on one topic.

Not here: which servers, and what makes a queue young (`test_consume_from_where`, `stores/test_cleaned`).
"""

from __future__ import annotations

import base64
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import rocketpy.sync
from rocketpy import ConsumeFromWhere, Message
from tests.interop import probe
from tests.interop.drivers import java_push_consumer
from tests.interop.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.interop.apache import Apache

QUEUES = 2
EARLY, LATE, NEW = range(4), range(4, 8), range(8, 12)
"""What is sent before a second begins, after that, and when the consumers have their queues."""
AS_TOLD = {"first": (*EARLY, *LATE, *NEW), "last": (*NEW,), "since": (*LATE, *NEW)}
"""What a group gets that begins at either end, or at that second."""


def send(namesrv: str, topic: str, numbers: Sequence[int]) -> None:
    """Send these messages to the queues in turn."""
    with rocketpy.sync.Producer("where-senders", namesrv=namesrv, send_timeout=10.0) as producer:
        queues = producer.queues(topic)
        for number in numbers:
            producer.send(Message(topic, b"%d" % number), queue=queues[number % QUEUES])


def check_beginnings(
    apache: Apache, namesrv: str, topic: str, name: str, expected: Mapping[str, Sequence[int]]
) -> None:
    """Have groups of this name begin at either end and at a second, and see what each gets of what is sent."""
    send(namesrv, topic, EARLY)
    second = _next_second()
    send(namesrv, topic, LATE)
    with ExitStack() as stack:
        scene = _Scene(apache, namesrv, topic, stack)
        for kind in expected:
            scene.java(f"java-{kind}-{name}", kind, second)
            scene.ours(f"ours-{kind}-{name}", kind, second)
        send(namesrv, topic, NEW)
        for kind, numbers in expected.items():
            scene.check(f"java-{kind}-{name}", numbers)
            scene.check(f"ours-{kind}-{name}", numbers)


def _next_second() -> str:
    """Wait for it; as Java writes it. Brokers search by the millisecond, consumers name a second."""
    then = int(time.time()) + 1
    time.sleep(then - time.time())
    return time.strftime("%Y%m%d%H%M%S", time.localtime(then))


class _Scene:
    """Consumers of a topic, each in a group of its own."""

    def __init__(self, apache: Apache, namesrv: str, topic: str, stack: ExitStack) -> None:
        self._apache = apache
        self._namesrv = namesrv
        self._topic = topic
        self._stack = stack
        self._got: dict[str, Callable[[], list[int]]] = {}

    def java(self, group: str, kind: str, second: str) -> None:
        """Begin with Java's; its starting offsets are decided when this returns."""
        where = {"from": "timestamp", "timestamp": second} if kind == "since" else {"from": kind}
        driver = java_push_consumer(self._apache, self._namesrv, group, self._topic, **where)
        opened = self._stack.enter_context(driver)
        self._got[group] = lambda: sorted(int(base64.b64decode(each["body"])) for each in opened.messages)

    def ours(self, group: str, kind: str, second: str) -> None:
        """Begin with ours, likewise."""
        inbox = Inbox()
        where = {
            "first": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            "last": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            "since": ConsumeFromWhere.CONSUME_FROM_TIMESTAMP,
        }[kind]
        consumer = rocketpy.sync.PushConsumer(
            group, namesrv=self._namesrv, consume_from_where=where, consume_timestamp=second
        )
        opened = self._stack.enter_context(consumer)
        opened.subscribe(self._topic, inbox.take)
        probe.eventually(lambda: len(opened.wait_assigned(20)) == QUEUES or None, "all queues", 20.0)
        self._got[group] = lambda: sorted(int(message.body) for message in inbox.messages)

    def check(self, group: str, expected: Sequence[int]) -> None:
        """Wait until a group has all of these; it has no others."""
        got = self._got[group]
        probe.eventually(lambda: set(got()) >= set(expected) or None, f"messages of {group}", 30.0)
        assert got() == [*expected], group
