"""Where a group without offsets begins: Apache's push consumer and ours, on both brokers, get the same messages.

A queue that still has its first message in memory is young: brokers answer that such a group stands at 0, and it gets
everything, whatever it is set to. How Apache's broker answers of a queue that is not is in `stores/test_cleaned`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.interop import probe
from tests.interop.beginnings import AS_TOLD, QUEUES, check_beginnings
from tests.interop.ours import our_broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's servers and for the next second")]

FORGETFUL = {"accessMessageInMemoryMaxRatio": 0}
"""With this a broker of ours has no young queues."""


@pytest.mark.parametrize("servers", ["apache_cluster", "our_servers"])
def test_a_young_queue_is_read_from_its_start_whatever_is_set(
    request: pytest.FixtureRequest, apache: Apache, servers: str, fresh_name: Callable[[str], str]
) -> None:
    cluster, topic = request.getfixturevalue(servers), fresh_name("Where")
    cluster.create_topic(topic, queues=QUEUES)
    check_beginnings(apache, cluster.namesrv, topic, topic, dict.fromkeys(("last", "since"), AS_TOLD["first"]))


def test_a_group_without_offsets_begins_where_it_is_told_to(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Where")
    with our_broker(our_servers.namesrv, name="broker-forgetful", overrides=FORGETFUL) as broker:
        probe.create_topic(broker.address, topic, queues=QUEUES)
        probe.wait_route(our_servers.namesrv, topic)
        check_beginnings(apache, our_servers.namesrv, topic, topic, AS_TOLD)
