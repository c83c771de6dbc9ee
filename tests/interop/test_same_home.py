"""One home, a broker of ours and Apache's in turn: messages, topics, offsets and pending delays go on.

What the other one left is taken up after an orderly stop (of ours) and after a kill (of Apache's).
"""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import ConsumeFromWhere, Message
from tests.interop import probe
from tests.interop.drivers import java_push_consumer
from tests.interop.inbox import Inbox
from tests.interop.ours import our_broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.interop.apache import Apache, Cluster

pytestmark = pytest.mark.interop

TOPIC, GROUP, NAME = "Same-home", "same-home-group", "broker-home"
QUEUES = 2
DELAYS = "1s 3s 1s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2h"
OVERRIDES = {"messageDelayLevel": DELAYS, "flushConsumerOffsetInterval": 200, "flushDelayOffsetInterval": 200}


@contextmanager
def consuming(namesrv: str, inbox: Inbox) -> Iterator[None]:
    made = rocketpy.sync.PushConsumer(
        GROUP, namesrv=namesrv, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    )
    made.subscribe(TOPIC, inbox.take)
    with made:
        yield


def send(namesrv: str, first: int, last: int, delay_level: int = 0) -> None:
    with rocketpy.sync.Producer("same-home", namesrv=namesrv, send_timeout=10.0) as producer:
        for number in range(first, last):
            message = Message(TOPIC, b"body-%d" % number, keys=f"key-{number}", tags="red", delay_level=delay_level)
            producer.send(message)


def bodies(inbox: Inbox) -> list[str]:
    return sorted(message.body.decode() for message in inbox.messages)


def numbered(first: int, last: int) -> list[str]:
    return sorted(f"body-{n}" for n in range(first, last))


def wait_stored(home: Path, reached: int) -> None:
    """Wait until Apache's broker has written that its group has got so far."""

    def look() -> bool | None:
        text = (home / "store" / "config" / "consumerOffset.json").read_text("utf-8")
        if not text.rstrip().endswith("}"):
            return None  # Apache's broker writes over the file that is there
        offsets = probe.Answer(0, None, text.replace("\n", "").replace("\t", "").encode()).json()["offsetTable"]
        return sum(offsets.get(f"{TOPIC}@{GROUP}", {}).values()) == reached or None

    probe.eventually(look, f"{reached} in consumerOffset.json", 20.0)


def test_brokers_of_both_kinds_go_on_where_the_other_stopped(
    apache: Apache, apache_cluster: Cluster, tmp_path: Path
) -> None:
    namesrv, first, last = apache_cluster.namesrv, Inbox(), Inbox()
    with our_broker(namesrv, name=NAME, home=tmp_path, overrides=OVERRIDES) as broker:
        probe.create_topic(broker.address, TOPIC, queues=QUEUES)
        probe.wait_route(namesrv, TOPIC)
        with consuming(namesrv, first):
            send(namesrv, 0, 20)
            first.wait_here(20)
        send(namesrv, 20, 25)
        send(namesrv, 25, 28, delay_level=2)
    assert bodies(first) == numbered(0, 20)
    assert not (tmp_path / "store" / "abort").exists()
    with apache.broker(namesrv, name=NAME, home=tmp_path, overrides=OVERRIDES) as broker:
        probe.wait_route(namesrv, TOPIC)
        with java_push_consumer(apache, namesrv, GROUP, TOPIC) as consumer:
            assert len(consumer.share[TOPIC]) == QUEUES
            messages = consumer.wait_messages(8)
            consumer.finish()
        send(namesrv, 28, 33)
        wait_stored(tmp_path, 28)
        send(namesrv, 33, 35, delay_level=2)
        broker.process.kill()
    assert sorted(base64.b64decode(each["body"]).decode() for each in messages) == numbered(20, 28)
    assert {each["tags"] for each in messages} == {"red"}
    with our_broker(namesrv, name=NAME, home=tmp_path, overrides=OVERRIDES):
        probe.wait_route(namesrv, TOPIC)
        with consuming(namesrv, last):
            send(namesrv, 35, 40)
            wanted = set(numbered(28, 40))
            probe.eventually(lambda: wanted <= set(bodies(last)) or None, "what is left and what is new", 30.0)
    # A killed broker may not have written down how far its delays are: those it delivered may come again.
    again = set(numbered(25, 28))
    rest = [each for each in bodies(last) if each not in again]
    assert rest == numbered(28, 40)
    config = tmp_path / "store" / "config"
    assert json.loads((config / "topics.json").read_text("utf-8"))["topicConfigTable"][TOPIC]["readQueueNums"] == QUEUES
