"""The page of `mqadmin` says what the interop tests compare with Apache's servers; and how they compare."""

from __future__ import annotations

import re

from tests.interop.apache import LINES
from tests.interop.mqadmin.known import KNOWN, REFUSED
from tests.interop.mqadmin.outcomes import Known, Refused, stale, unexplained
from tests.interop.mqadmin.page import page
from tests.interop.mqadmin.run import Run, Said
from tests.interop.mqadmin.step import Step, of_line
from tests.interop.mqadmin.steps import STEPS
from tests.interop.mqadmin.text import flat, plain
from tests.pages import DOCS
from tests.rules import listed

NEWER, OLDER = LINES
LOOK = Step("topicList")


def run(theirs: list[str], ours: list[str], step: Step = LOOK) -> Run:
    """A run of one step."""
    return Run(NEWER, ("topicList",), [Said(step, theirs, ours)])


def test_the_page_says_what_is_declared() -> None:
    written = (DOCS / "reference" / "mqadmin.md").read_text("utf-8")
    assert written == page(), "run: python -m tests.interop.mqadmin --page docs/reference/mqadmin.md"


def test_each_line_has_its_commands_on_the_page() -> None:
    tables = dict(zip(LINES, re.split(r"^## \S+$", page(), flags=re.MULTILINE)[1:], strict=True))
    for version, table in tables.items():
        named = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
        assert named == {each.command for each in of_line(STEPS, version)}
    assert "createUser" not in tables[OLDER]
    assert "| `getAclConfig` | `-b {broker}` | differs: " in tables[OLDER]


def test_every_reason_is_about_steps() -> None:
    listed(
        (
            f"{each.steps} in {version}"
            for each in [*KNOWN, *REFUSED]
            for version in each.lines
            if not any(map(each.concerns, of_line(STEPS, version)))
        ),
        "known.py explains steps that steps.py does not have",
    )


def test_lines_that_differ_need_a_reason() -> None:
    other = run(["Orders", "Static"], ["Orders", "Ours"])
    static = Known("topicList", "why", theirs=("Static",))
    assert list(unexplained(other, [], [])) == ["topicList\n  - Static\n  + Ours"]
    assert list(unexplained(other, [static], [])) == ["topicList\n  + Ours"]
    assert list(unexplained(other, [Known("topicList", "why", theirs=("Static",), ours=("Ours",))], [])) == []
    assert list(unexplained(other, [Known("topicList", "why", at_times=("Static|Ours",))], [])) == []
    elsewhere = Known("topicList", "why", theirs=("Static",), lines=(OLDER,))
    assert list(unexplained(other, [elsewhere], [])) == list(unexplained(other, [], []))
    assert list(unexplained(run(["a", "b"], ["b", "a"]), [], [])) != []


def test_failures_on_both_sides_need_a_reason() -> None:
    failed = run(["Caused by: X: CODE: 17 DESC: <remark>"], ["Caused by: X: CODE: 17 DESC: <remark>"])
    assert list(unexplained(failed, [], [])) == ["topicList\n  = Caused by: X: CODE: 17 DESC: <remark>"]
    assert list(unexplained(failed, [], [Refused("topicList", "why", ".*CODE: 17 .*")])) == []


def test_reasons_that_hold_no_more_are_found() -> None:
    known = Known("topicList", "why", theirs=("Static",), ours=("Ours",))
    assert list(stale(run(["Static"], ["Ours"]), [known], [])) == []
    assert list(stale(run(["Static"], []), [known], [])) == ["topicList: there is no line + Ours"]
    assert list(stale(run(["Orders"], ["Orders"]), [known], [])) == [
        "topicList: there is no line - Static",
        "topicList: there is no line + Ours",
        "topicList: topicList prints the same",
    ]
    refused = Refused("topicList", "why", ".*CODE: 3 .*")
    assert list(stale(run(["CODE: 3 x"], ["CODE: 3 x"]), [], [refused])) == []
    assert list(stale(run(["CODE: 3 x"], ["Orders"]), [], [refused])) == ["topicList: both do not say .*CODE: 3 .*"]
    assert list(stale(Run(NEWER, (), []), [], [refused])) == ["topicList: there is no such step"]


def test_what_differs_from_run_to_run_is_taken_out() -> None:
    places = {"broker": "127.0.0.1:10911", "home": "/tmp/broker"}
    printed = (
        "#Addr   #Version  #Offset\n"
        "127.0.0.1:10911   V5_3_3  7\n"
        "127.0.0.1:9   2026-11-29 10:00:00,123  2048\n"
        "id 7F000001000000000000000000000001, 1.5 GiB, 0.25\n"
        "X: CODE: 17  DESC: no such topic\n"
        "\tat java.lang.Thread.run(Thread.java:1)\n"
        "\n"
        "/tmp/broker/store 12ms\n"
    )
    assert plain(printed, places) == [
        "#Addr #Version #Offset",
        "{broker} <version> 7",
        "<address> <time> #",
        "id <id>, <size>, #",
        "X: CODE: 17 DESC: <remark>",
        "{home}/store 12ms",
    ]
    assert plain("a 7 CODE: 17 12ms 5%", {}, measured=True) == ["a # CODE: 17 #ms #"]


def test_json_is_compared_member_by_member() -> None:
    assert sorted(flat({"b": [1, {"c": None}], "a": {}})) == ["a = {}", "b[] = 1", "b[].c = null"]
