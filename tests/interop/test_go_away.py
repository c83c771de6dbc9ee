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


def test_no_send_is_lost_when_apaches_broker_stops(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rocketpy.remoting.pool")
    topic = fresh_name("Leaving")
    with (
        apache.broker(our_servers.namesrv, name="leaving", overrides=GRACEFUL) as leaving,
        rocketpy.sync.Producer("goers", namesrv=our_servers.namesrv) as producer,
    ):
        producer.create_topic(topic, queues=2)
        first = [producer.send(Message(topic, b"before")).queue.broker_name for _ in range(20)]
        assert set(first) == {"broker-a", "leaving"}
        leaving.process.terminate()
        ended = time.monotonic() + 6
        after = []
        while time.monotonic() < ended:
            after.append(producer.send(Message(topic, b"after")).queue.broker_name)
            time.sleep(0.02)
        assert after[-1] == "broker-a"
    said = any("sent GO_AWAY" in record.getMessage() for record in caplog.records)
    assert said is not apache.version.startswith("4")
