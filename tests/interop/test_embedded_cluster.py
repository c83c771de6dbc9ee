"""Apache's clients on a cluster inside the test: what tests of services in Java, or beside them, do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocketpy import Message
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim import BlockingLocalCluster
from tests.interop.drivers import java_produce, java_push_consumer

if TYPE_CHECKING:
    from tests.interop.apache import Apache

pytestmark = pytest.mark.interop


def test_what_a_java_group_has_consumed_is_waited_for(apache: Apache) -> None:
    with BlockingLocalCluster() as cluster:
        cluster.create_topic("Orders")
        with java_push_consumer(apache, cluster.name_server_addresses, "billing", "Orders") as consumer:
            ids = {cluster.send(Message("Orders", b"%d" % number, tags="created")) for number in range(200)}
            cluster.wait_consumed("billing", "Orders", timeout=60)
            assert {each["msgId"] for each in consumer.wait_messages(200)} == ids


def test_a_java_producer_tries_again_when_it_is_refused(apache: Apache) -> None:
    with BlockingLocalCluster() as cluster:
        cluster.create_topic("Orders")
        cluster.refuse_sends(2, code=ResponseCode.SYSTEM_ERROR)  # 4.9 takes SYSTEM_BUSY for final
        sent = java_produce(apache, cluster.name_server_addresses, "Orders", 3)
        assert {each["status"] for each in sent.results} == {"SEND_OK"}
        found = cluster.messages("Orders")
        assert {each["msgId"] for each in sent.results} == {message.message_id for message in found}
        assert len(found) == 3
