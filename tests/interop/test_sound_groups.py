"""Our consumers notice on Apache's servers that their group is not sound."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from tests.interop.drivers import java_push_consumer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.waits("waits for Apache's server")]


class Heard(logging.Handler):
    """Waits for a line of our log that has a text. Made before what may log it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self._heard = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """A line."""
        if self._text in record.getMessage():
            self._heard.set()

    def wait(self) -> None:
        """Wait for it."""
        assert self._heard.wait(60), f"no line has {self._text!r}"


@contextmanager
def heard(text: str) -> Iterator[Heard]:
    """Listens to our loggers."""
    handler, ours = Heard(text), logging.getLogger("rocketpy")
    ours.addHandler(handler)
    try:
        yield handler
    finally:
        ours.removeHandler(handler)


def test_complaint_13_two_clients_with_one_id(apache_cluster: Cluster, fresh_name: Callable[[str], str]) -> None:
    topic, group = fresh_name("Sound"), fresh_name("sound-group")
    apache_cluster.create_topic(topic, queues=2)
    settings = {"namesrv": apache_cluster.namesrv, "instance_name": "the-same"}
    with (
        heard("is used from several addresses") as warning,
        rocketpy.sync.PushConsumer(group, **settings) as one,
        rocketpy.sync.PushConsumer(group, **settings) as two,
    ):
        for each in (one, two):
            each.subscribe(topic, lambda message: None)
        warning.wait()


def test_members_that_subscribe_differently(apache_cluster: Cluster, fresh_name: Callable[[str], str]) -> None:
    topic, group = fresh_name("Sound"), fresh_name("sound-group")
    apache_cluster.create_topic(topic, queues=2)
    with (
        heard("wants 'a', and another wants 'b'") as warning,
        rocketpy.sync.PushConsumer(group, namesrv=apache_cluster.namesrv) as one,
        rocketpy.sync.PushConsumer(group, namesrv=apache_cluster.namesrv) as two,
    ):
        one.subscribe(topic, lambda message: None, tags="a")
        two.subscribe(topic, lambda message: None, tags="b")
        warning.wait()


def test_members_that_work_differently_beside_apaches(
    apache: Apache, apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    """Apache's member is concurrent, and has a strategy of its own: it says both in its own words."""
    topic, group = fresh_name("Sound"), fresh_name("sound-group")
    apache_cluster.create_topic(topic, queues=2)
    with (
        heard("does not. Only") as of_order,
        heard("AnnouncedAllocation. Unless both share out") as of_shares,
        java_push_consumer(apache, apache_cluster.namesrv, group, topic),
        rocketpy.sync.PushConsumer(
            group, namesrv=apache_cluster.namesrv, orderly=True, allocate_strategy="by_circle"
        ) as ours,
    ):
        ours.subscribe(topic, lambda message: None)
        of_order.wait()
        of_shares.wait()
