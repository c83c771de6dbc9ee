"""Our replay of dead letters on Apache's brokers, whose own consumer gets them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import Message, MessageExt, RetryLater
from tests.interop import probe
from tests.interop.drivers import java_push_consumer
from tests.interop.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("for Apache's servers and clients")]


@pytest.mark.parametrize("servers", ["apache_cluster", "our_servers"])
def test_dead_letters_are_counted_and_sent_again(
    apache: Apache, servers: str, request: pytest.FixtureRequest, fresh_name: Callable[[str], str]
) -> None:
    cluster: Cluster = request.getfixturevalue(servers)
    topic, group, inbox = fresh_name("Payments"), fresh_name("bank"), Inbox()
    cluster.create_topic(topic, queues=1)

    def give_up(message: MessageExt) -> RetryLater:
        inbox.take(message)
        return RetryLater(-1)

    with rocketpy.sync.PushConsumer(group, namesrv=cluster.namesrv) as consumer:
        consumer.subscribe(topic, give_up)
        consumer.wait_assigned(20)
        with rocketpy.sync.Producer("shop", namesrv=cluster.namesrv, send_timeout=10.0) as producer:
            for number in range(3):
                producer.send(Message(topic, b"body-%d" % number, keys=[f"key-{number}"]))
        inbox.wait_here(3)
        probe.eventually(lambda: consumer.statistics().sent_back == 3 or None, "three dead letters", 30.0)
    # Brokers of 4.x make the topic of dead letters for writing alone.
    cluster.create_topic(f"%DLQ%{group}", queues=1)
    replay = rocketpy.sync.replay_dead_letters
    assert replay(group, namesrv=cluster.namesrv, dry_run=True).replayed == 3
    with java_push_consumer(apache, cluster.namesrv, group, topic) as java:
        before = len(java.messages)
        done = replay(group, namesrv=cluster.namesrv, wanted=lambda message: message.body != b"body-1")
        assert (done.replayed, done.skipped, done.remaining) == (2, 1, 0)
        messages = java.wait_messages(before + 2)[before:]
        java.finish()
    assert sorted(message["keys"] for message in messages) == ["key-0", "key-2"]
    assert replay(group, namesrv=cluster.namesrv).replayed == 0
