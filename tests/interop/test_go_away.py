"""An Apache broker stops while our client sends: 5.3.3 asks it to go away, 4.9.7 hangs up; no send is lost."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's server")]

GRACEFUL = {"enableShutdownGracefully": True, "shutdownWaitTimeSeconds": 3}


LEAST, MOST = 6.0, 60.0
"""Seconds to send on for: until the broker has hung up, and at most."""
SETTLED = 20
"""So many sends, one after the other, go to the broker that stays, once ours knows of it."""


def test_no_send_is_lost_when_apaches_broker_stops(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rocketpy.remoting.pool")
    topic = fresh_name("Leaving")

    def said() -> bool:
        return any("sent GO_AWAY" in record.getMessage() for record in caplog.records)

    with (
        apache.broker(our_servers.namesrv, name="leaving", overrides=GRACEFUL) as leaving,
        rocketpy.sync.Producer("goers", namesrv=our_servers.namesrv, send_timeout=10.0) as producer,
    ):
        producer.create_topic(topic, queues=2)
        first = [producer.send(Message(topic, b"before")).queue.broker_name for _ in range(20)]
        assert set(first) == {"broker-a", "leaving"}
        leaving.process.terminate()
        began, after = time.monotonic(), list[str]()

        def settled() -> bool:
            known = said() or not leaving.process.running
            return known and len(after) >= SETTLED and set(after[-SETTLED:]) == {"broker-a"}

        while (passed := time.monotonic() - began) < LEAST or not settled():
            assert passed < MOST, f"{after[-SETTLED:]}, and GO_AWAY: {said()}"
            after.append(producer.send(Message(topic, b"after")).queue.broker_name)
            time.sleep(0.02)
    assert said() is not apache.version.startswith("4")
