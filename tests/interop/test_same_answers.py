"""The same raw requests to Apache's broker and to ours: codes, fields and bodies have to agree.

Where the older line differs from the one that ours plays, its answer is the one that `lines` tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.message_codec import decode_messages
from tests.interop import lines, probe, questions
from tests.interop.ours import our_cluster
from tests.interop.questions import ALIKE, APART, Question
from tests.interop.settings import QUICK_RETRIES
from tests.json_shape import shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.apache import Apache, Cluster
    from tests.interop.lines import Line
    from tests.interop.probe import Answer

pytestmark = pytest.mark.interop

OF_THE_MOMENT = frozenset({"msgId", "transactionId", "timestamp"})
"""Fields that tell host or time."""
FOUND = 0
PULLS = (questions.PULL, questions.LITE_PULL)
OBJECTS = (questions.GET_TOPIC, questions.GET_GROUP, questions.FORBID)


@pytest.fixture(scope="module")
def brokers(apache_cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Apache's and one of ours that no other line has asked, with the same in them."""
    with our_cluster(overrides=QUICK_RETRIES) as own:
        pair = apache_cluster.brokers[0].address, own.brokers[0].address
        for each in pair:
            questions.prepare(each)
        yield pair


def ask(brokers: tuple[str, str], question: Question) -> tuple[Answer, Answer]:
    theirs, ours = (probe.call(each, question.code, question.fields, question.body, timeout=10) for each in brokers)
    return theirs, ours


def fixed_fields(answer: Answer) -> dict[str, str]:
    return {name: "" if name in OF_THE_MOMENT else value for name, value in answer.fields.items()}


def meaning(question: Question, answer: Answer, line: Line, separators_missing: int = 0) -> Any:
    """A body as something to compare. Positions in the logs are not: both hold what other tests sent too."""
    if question.code in PULLS and answer.code == FOUND:
        return [
            (
                each.queue_offset,
                each.body,
                each.topic,
                lines.known(each.wire_properties, line),
                lines.size_without_properties(each, separators_missing),
            )
            for each in decode_messages(answer.body)
        ]
    if question in questions.LOOKS:
        return like(answer.body, line)
    return answer.json() if question.code in OBJECTS and answer.body else answer.body


def like(body: bytes, line: Line) -> object:
    """The shape of a body, without members that brokers of the line do not tell."""
    found = shape(parse_json(body)) if body else None
    if isinstance(found, dict):
        return {name: each for name, each in found.items() if name not in line.lacking_members}
    return found


@pytest.mark.parametrize("question", ALIKE, ids=lambda question: question.name)
def test_both_answer_alike(apache: Apache, brokers: tuple[str, str], question: Question) -> None:
    theirs, ours = ask(brokers, question)
    line = lines.of(apache.version)
    if question.name in line.answers:
        lines.check_otherwise(theirs, ours, line.answers[question.name])
        return
    assert ours.code == theirs.code, (ours.remark, theirs.remark)
    assert not theirs.fields.keys() & line.lacking_fields.keys()
    expected = {name: value for name, value in fixed_fields(ours).items() if name not in line.lacking_fields}
    assert expected == fixed_fields(theirs)
    assert meaning(question, ours, line) == meaning(question, theirs, line, line.separators_missing)


@pytest.mark.parametrize(("question", "apache_code", "our_code", "why"), APART, ids=[each[0].name for each in APART])
def test_where_ours_differs_it_is_meant(
    apache: Apache, brokers: tuple[str, str], question: Question, apache_code: int, our_code: int, why: str
) -> None:
    theirs, ours = ask(brokers, question)
    other = lines.of(apache.version).answers.get(question.name)
    assert (theirs.code, ours.code) == (other.code if other else apache_code, our_code), why
    assert ours.remark
