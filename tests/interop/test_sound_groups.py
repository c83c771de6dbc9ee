"""Our consumers notice on Apache's servers that their group is not sound."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.apache import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's server")]


def wait_warning(caplog: pytest.LogCaptureFixture, text: str) -> None:
    deadline = time.monotonic() + 60
    while text not in caplog.text:
        assert time.monotonic() < deadline, caplog.text
        time.sleep(0.1)


def test_complaint_13_two_clients_with_one_id(
    apache_cluster: Cluster, fresh_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = fresh_name("Sound"), fresh_name("sound-group")
    apache_cluster.create_topic(topic, queues=2)
    settings = {"namesrv": apache_cluster.namesrv, "instance_name": "the-same"}
    with rocketpy.sync.PushConsumer(group, **settings) as one, rocketpy.sync.PushConsumer(group, **settings) as two:
        for each in (one, two):
            each.subscribe(topic, lambda message: None)
        wait_warning(caplog, "is used from several addresses")


def test_members_that_subscribe_differently(
    apache_cluster: Cluster, fresh_name: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = fresh_name("Sound"), fresh_name("sound-group")
    apache_cluster.create_topic(topic, queues=2)
    with (
        rocketpy.sync.PushConsumer(group, namesrv=apache_cluster.namesrv) as one,
        rocketpy.sync.PushConsumer(group, namesrv=apache_cluster.namesrv) as two,
    ):
        one.subscribe(topic, lambda message: None, tags="a")
        two.subscribe(topic, lambda message: None, tags="b")
        wait_warning(caplog, "wants 'a', and another wants 'b'")
