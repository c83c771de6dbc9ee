"""Members of a group that have the same queues are told so through Apache's brokers, whichever client the other is."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy.consumer.lite import assigned_twice
from tests.interop.drivers import java_push_consumer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's servers and clients")]

QUEUES = 4
TOLD = re.compile(r"consume the same queues: this one \((\S+)\), to which they are assigned, and (\S+) have ")


def test_ours_hears_who_else_has_the_queues_that_were_assigned_to_it(
    apache: Apache,
    apache_cluster: Cluster,
    fresh_name: Callable[[str], str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, seconds in (("FIRST_LOOK", 0.5), ("SECOND_LOOK", 1.0), ("LOOK_EVERY", 1.0)):
        monkeypatch.setattr(assigned_twice, name, seconds)
    topic, group = fresh_name("Assigned"), fresh_name("assigned-group")
    apache_cluster.create_topic(topic, queues=QUEUES)
    one, two = [rocketpy.sync.LitePullConsumer(group, namesrv=apache_cluster.namesrv) for _ in range(2)]
    queues = one.fetch_message_queues(topic)
    one.assign(queues[:3])
    two.assign(queues[2:])
    with java_push_consumer(apache, apache_cluster.namesrv, group, topic) as java, one, two:
        ids = [consumer.status().client_id for consumer in (one, two)]
        # Each of ours has to hear of the other, and one of them at least of Apache's: it has a queue of theirs.
        wanted = {(ids[0], ids[1]), (ids[1], ids[0])}
        said: set[tuple[str, ...]] = set()
        end = time.monotonic() + 100
        while time.monotonic() < end and not (wanted < said):
            time.sleep(0.5)
            said = {found.groups() for record in caplog.records if (found := TOLD.search(record.getMessage()))}
        assert wanted < said, f"Apache's consumer has {java.share.get(topic)}"
        assert {other for _, other in said - wanted} == {java.of("ready")[0]["clientId"]}
