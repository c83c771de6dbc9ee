"""Brokers that filter by properties, that filter retry topics, and that do neither: ours answers as Apache's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import rocketpy
from rocketpy import FilterRefusedError
from rocketpy.wire.message_codec import decode_messages
from tests.interop import filter_questions, lines, probe
from tests.interop.drivers import java_push_consumer
from tests.interop.failure import InteropError
from tests.interop.filter_questions import APART, CHECKS, PULLS, RETRIES, Check, Pull
from tests.interop.ours import our_cluster
from tests.interop.questions import UPDATE_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.interop.apache import Apache, Cluster
    from tests.interop.probe import Answer

pytestmark = pytest.mark.interop

FOUND, SYSTEM_ERROR, PARSE_FAILED = 0, 1, 23
STATUSES = frozenset({FOUND, 19, 20, 21})
"""Codes of pulls that were carried out; their remark is the name of a status."""
SWITCHES = [pytest.param(True, id="on"), pytest.param(False, id="off")]


@pytest.fixture(scope="module")
def brokers(apache_cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Apache's and one of ours, with the same in them."""
    with our_cluster() as own:
        pair = apache_cluster.brokers[0].address, own.brokers[0].address
        for each in pair:
            filter_questions.prepare(each)
        yield pair


@contextmanager
def switched(brokers: tuple[str, ...], **switches: bool) -> Iterator[None]:
    """Set switches while brokers run, and afterwards as the harness starts brokers."""
    try:
        switch(brokers, switches)
        yield
    finally:
        switch(brokers, {"enablePropertyFilter": True, "filterSupportRetry": False})


def switch(brokers: tuple[str, ...], values: Mapping[str, bool]) -> None:
    body = "".join(f"{name}={str(value).lower()}\n" for name, value in values.items()).encode()
    for each in brokers:
        answer = probe.call(each, UPDATE_CONFIG, body=body)
        assert answer.code == 0, answer.remark


def told(answer: Answer) -> tuple[int, str | None, list[bytes]]:
    """What a client reads of an answer to a pull."""
    remark = answer.remark if answer.code in STATUSES else None
    found = decode_messages(answer.body) if answer.code == FOUND else []
    return answer.code, remark, [each.body for each in found]


@pytest.mark.parametrize("on", SWITCHES)
@pytest.mark.parametrize("question", CHECKS, ids=lambda each: each.name)
def test_F5_a_check_is_answered_as_apaches(brokers: tuple[str, str], question: Check, on: bool) -> None:
    with switched(brokers, enablePropertyFilter=on):
        theirs, ours = (filter_questions.check(each, "filter-check", question) for each in brokers)
    assert ours.code == theirs.code, (ours.remark, theirs.remark)
    if not on and question.wanted is not None and question.wanted.kind != filter_questions.TAG:
        assert ours.code == SYSTEM_ERROR
        assert all(question.wanted.kind in (each.remark or "") for each in (theirs, ours))


@pytest.mark.parametrize("on", SWITCHES)
@pytest.mark.parametrize("question", PULLS, ids=lambda each: each.name)
def test_F5_a_pull_is_answered_as_apaches(
    brokers: tuple[str, str], fresh_name: Callable[[str], str], question: Pull, on: bool
) -> None:
    group = fresh_name("filter-pull")
    with switched(brokers, enablePropertyFilter=on):
        theirs, ours = (filter_questions.pull(each, group, question) for each in brokers)
    assert told(ours) == told(theirs), (ours.remark, theirs.remark)


@pytest.mark.parametrize("on", SWITCHES)
@pytest.mark.parametrize("question", RETRIES, ids=lambda each: each.name)
def test_F5_a_pull_of_retries_is_answered_as_apaches(
    apache: Apache, brokers: tuple[str, str], fresh_name: Callable[[str], str], question: Pull, on: bool
) -> None:
    group = fresh_name("filter-retry")
    with switched(brokers, filterSupportRetry=on):
        theirs, ours = (filter_questions.pull(each, group, question) for each in brokers)
    known = lines.of(apache.version).filtered_retries
    if on and question.name in known:
        assert tuple(told(theirs)[2]) == known[question.name] != tuple(told(ours)[2])
        return
    assert told(ours) == told(theirs), (ours.remark, theirs.remark)


@pytest.mark.parametrize(("question", "apache_code", "our_code", "why"), APART, ids=[each[0].name for each in APART])
def test_where_ours_differs_it_is_meant(
    brokers: tuple[str, str],
    fresh_name: Callable[[str], str],
    question: Pull,
    apache_code: int,
    our_code: int,
    why: str,
) -> None:
    group = fresh_name("filter-apart")
    theirs, ours = (filter_questions.pull(each, group, question) for each in brokers)
    assert (theirs.code, ours.code) == (apache_code, our_code), why
    with switched(brokers, enablePropertyFilter=False):
        theirs, ours = (filter_questions.pull(each, group, question) for each in brokers)
    assert theirs.code == ours.code == SYSTEM_ERROR


# --- what users hear ------------------------------------------------------------------------------------


@pytest.mark.waits("waits for servers of other processes")
async def test_our_consumer_hears_what_apaches_broker_is_not_set_up_for(
    apache_cluster: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Sql")
    apache_cluster.create_topic(topic, queues=1)
    consumer = rocketpy.PushConsumer(fresh_name("sql"), namesrv=apache_cluster.namesrv)
    consumer.subscribe(topic, print, sql="a = 1")
    with (
        switched((apache_cluster.brokers[0].address,), enablePropertyFilter=False),
        pytest.raises(FilterRefusedError, match="set enablePropertyFilter=true there") as caught,
    ):
        await consumer.__aenter__()
    assert caught.value.code == SYSTEM_ERROR


@pytest.mark.waits("waits for clients of other processes")
def test_apaches_consumer_hears_what_our_broker_is_not_set_up_for(
    apache: Apache, our_servers: Cluster, fresh_name: Callable[[str], str]
) -> None:
    topic = fresh_name("Sql")
    our_servers.create_topic(topic, queues=1)
    with (
        switched((our_servers.brokers[0].address,), enablePropertyFilter=False),
        pytest.raises(InteropError, match="set enablePropertyFilter=true in its configuration"),
        java_push_consumer(apache, our_servers.namesrv, fresh_name("sql"), topic, sql="a = 1"),
    ):
        pass
