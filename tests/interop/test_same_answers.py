"""The same raw requests to Apache's broker and to ours: codes, fields and bodies have to agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.wire.message_codec import decode_messages
from tests.interop import probe, questions
from tests.interop.questions import ALIKE, APART, Question

if TYPE_CHECKING:
    from tests.interop.apache import Cluster
    from tests.interop.probe import Answer

pytestmark = pytest.mark.interop

OF_THE_MOMENT = frozenset({"msgId", "transactionId", "timestamp"})
"""Fields that tell host or time."""
FOUND = 0
PULLS = (questions.PULL, questions.LITE_PULL)
OBJECTS = (questions.GET_TOPIC, questions.GET_GROUP, questions.FORBID)


@pytest.fixture(scope="module")
def brokers(apache_cluster: Cluster, our_servers: Cluster) -> tuple[str, str]:
    """Apache's and ours, with the same in them."""
    pair = apache_cluster.brokers[0].address, our_servers.brokers[0].address
    for each in pair:
        questions.prepare(each)
    return pair


def ask(brokers: tuple[str, str], question: Question) -> tuple[Answer, Answer]:
    theirs, ours = (probe.call(each, question.code, question.fields, question.body, timeout=10) for each in brokers)
    return theirs, ours


def fixed_fields(answer: Answer) -> dict[str, str]:
    return {name: "" if name in OF_THE_MOMENT else value for name, value in answer.fields.items()}


def meaning(question: Question, answer: Answer) -> Any:
    """A body as something to compare."""
    if question.code in PULLS and answer.code == FOUND:
        return [
            (each.store_size, each.queue_offset, each.commit_log_offset, each.body, each.topic, each.properties)
            for each in decode_messages(answer.body)
        ]
    return answer.json() if question.code in OBJECTS and answer.body else answer.body


def forget_positions(messages: Any) -> Any:
    return [each[:2] + each[3:] for each in messages] if isinstance(messages, list) else messages


@pytest.mark.parametrize("question", ALIKE, ids=lambda question: question.name)
def test_both_answer_alike(brokers: tuple[str, str], question: Question) -> None:
    theirs, ours = ask(brokers, question)
    assert ours.code == theirs.code, (ours.remark, theirs.remark)
    assert fixed_fields(ours) == fixed_fields(theirs)
    # Both logs hold what other tests sent too: positions in them differ.
    assert forget_positions(meaning(question, ours)) == forget_positions(meaning(question, theirs))


@pytest.mark.parametrize(("question", "apache_code", "our_code", "why"), APART, ids=[each[0].name for each in APART])
def test_where_ours_differs_it_is_meant(
    brokers: tuple[str, str], question: Question, apache_code: int, our_code: int, why: str
) -> None:
    theirs, ours = ask(brokers, question)
    assert (theirs.code, ours.code) == (apache_code, our_code), why
    assert ours.remark
