"""The same raw requests to Apache's name server and to ours, each of which has the same broker."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.interop import lines, probe
from tests.interop.name_server_questions import ALIKE, APART, BROKER
from tests.interop.ours import our_broker, our_name_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.apache import Apache
    from tests.interop.questions import Question

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def name_servers(apache: Apache) -> Iterator[tuple[str, str]]:
    """Apache's and ours, and nobody else asks them."""
    with ExitStack() as stack:
        theirs = stack.enter_context(apache.name_server()).address
        ours = stack.enter_context(our_name_server()).address
        stack.enter_context(our_broker(f"{theirs};{ours}", name=BROKER))
        yield theirs, ours


def ask(name_servers: tuple[str, str], question: Question) -> tuple[probe.Answer, probe.Answer]:
    theirs, ours = (probe.call(each, question.code, question.fields, question.body) for each in name_servers)
    return theirs, ours


@pytest.mark.parametrize("question", ALIKE, ids=lambda question: question.name)
def test_both_answer_alike(apache: Apache, name_servers: tuple[str, str], question: Question) -> None:
    line = lines.of(apache.version)
    if question.code in line.unanswered:
        assert [probe.is_answered(each, question.code) for each in name_servers] == [False, True]
        return
    theirs, ours = ask(name_servers, question)
    if question.name in line.answers:
        lines.check_otherwise(theirs, ours, line.answers[question.name])
        return
    assert ours.code == theirs.code, (ours.remark, theirs.remark)
    assert dict(ours.fields) == dict(theirs.fields)
    assert bool(ours.body) == bool(theirs.body)


@pytest.mark.parametrize(("question", "apache_code", "our_code", "why"), APART, ids=[each[0].name for each in APART])
def test_where_ours_differs_it_is_meant(
    apache: Apache, name_servers: tuple[str, str], question: Question, apache_code: int, our_code: int, why: str
) -> None:
    line = lines.of(apache.version)
    if question.code in line.unanswered:
        assert not probe.is_answered(name_servers[0], question.code)
        return
    theirs, ours = ask(name_servers, question)
    other = line.answers.get(question.name)
    assert (theirs.code, ours.code) == (other.code if other else apache_code, our_code), why
    assert ours.remark
