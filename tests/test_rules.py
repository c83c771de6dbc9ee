"""The rules of `tests/rules.py` find what breaks them, and nothing else."""

from __future__ import annotations

import pytest

from tests.rules import (
    MAX_EXAMPLE_LINES,
    MAX_FUNCTION_LINES,
    MAX_LINES,
    RARE_WORDS,
    Source,
    cancelled_caught,
    conditional_asserts,
    left_to_do,
    listed,
    long_example,
    long_file,
    long_functions,
    marks_told_wrongly,
    no_docstring,
    rare_words,
    shields,
    told,
    uncollected,
    untold_fields,
)


def source(text: str) -> Source:
    return Source("pkg/module.py", text)


def test_all_offences_are_listed_with_what_to_do_about_them() -> None:
    listed([], "never said")
    with pytest.raises(pytest.fail.Exception, match=r"(?s)^mend it:\n  a\.py:1\n  b\.py:2$") as failed:
        listed(iter(["a.py:1", "b.py:2"]), "mend it")
    assert not failed.value.pytrace  # no code and no fixtures around what is to be done


def test_long_files() -> None:
    assert list(long_file(source("x\n" * MAX_LINES))) == []
    assert list(long_file(source("x\n" * (MAX_LINES + 1)))) == ["pkg/module.py has 501 lines"]


def test_long_examples() -> None:
    assert list(long_example(source("x\n" + "\n" * (MAX_EXAMPLE_LINES - 1)))) == []
    assert list(long_example(source("x\n" + "\n" * MAX_EXAMPLE_LINES))) == ["pkg/module.py has 60 lines"]


@pytest.mark.parametrize("start", ["def f():", "async def f():", "class C:\n  def f(self):"])
def test_long_functions(start: str) -> None:
    def of(lines: int) -> Source:
        return source("import a\n" + start + "\n    pass" * (lines - 1))

    assert list(long_functions(of(MAX_FUNCTION_LINES))) == []
    (found,) = long_functions(of(MAX_FUNCTION_LINES + 1))
    assert found == f"pkg/module.py:{3 if 'class' in start else 2} f has 51 lines"


def test_long_functions_within_functions() -> None:
    inner = "def outer():\n  def inner():\n" + "    pass\n" * MAX_FUNCTION_LINES
    assert [each.split()[1] for each in long_functions(source(inner))] == ["outer", "inner"]


def test_modules_without_a_docstring() -> None:
    assert list(no_docstring(source('"""What it is."""\nimport a'))) == []
    for text in ("", "# a comment\nimport a", 'import a\n"""Too late."""', '""', 'f"""{a}"""'):
        assert list(no_docstring(source(text))) == ["pkg/module.py"], text


def test_fields_of_named_tuples_that_say_nothing() -> None:
    text = """
class A(NamedTuple):
    '''All: of them.

    Attributes:
        told: What it holds.
        empty:
    '''

    bare: int
    told: int
    empty: int
    below: int
    '''Bytes.'''
    blank: int
    ' '
    beside: int = 0  # ms
    quoted: str = "#"
    # Bytes.
    above: int = 0
    last: int = 0
class B(typing.NamedTuple): last: int
class C: not_a_field: int
"""
    found = [each.partition(" ")[2] for each in untold_fields(source(text))]
    assert found == ["A.bare", "A.empty", "A.blank", "A.quoted", "A.last", "B.last"]
    assert next(untold_fields(source(text))) == "pkg/module.py:10 A.bare"


def test_shields_are_seen() -> None:
    text = """
with CancelScope(shield=True):
    scope.shield = flag
    with move_on_after(1, shield=flag) as scope, nothing():
        a = scope.inner.shield = True
"""
    assert shields(source(text)) == 4
    assert shields(source("shield = scope.shield\nprint(shield, 'shield=True')  # shield=True")) == 0


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("trio.Cancelled", "trio.Cancelled"),
        ("Cancelled", "Cancelled"),
        ("(OSError, trio.Cancelled)", "(OSError, trio.Cancelled)"),
        ("asyncio.CancelledError", "asyncio.CancelledError"),
        ("concurrent.futures.CancelledError as e", "concurrent.futures.CancelledError"),
        ("OSError", None),
        ("", None),
    ],
)
def test_caught_cancellation(kind: str, found: str | None) -> None:
    text = f"try:\n    pass\nexcept {kind}:\n    pass  # Cancelled"
    assert list(cancelled_caught(source(text))) == ([("pkg/module.py:3", found)] if found else [])


def test_asserts_that_compare_in_one_branch_alone() -> None:
    text = """
assert a == b if c else d
assert (a if b else c), "why"
assert a == (b if c else d)
assert (a == b) is (c if d else e)
x = a if b else c
"""
    found = ["pkg/module.py:2 assert a == b if c else d", "pkg/module.py:3 assert a if b else c, 'why'"]
    assert list(conditional_asserts(source(text))) == found
    assert list(conditional_asserts(source("def f():\n    assert (\n        a if b\n        else c\n    )"))) != []
    assert list(conditional_asserts(source("assert a == b\nx = [a if b else c]"))) == []


def test_work_put_off() -> None:
    mark = "TO" + "DO"
    text = f'a = "{mark}"\n# {mark}: later\nraise NotImplementedError\nraise NotImplementedError()  # FIX' + "ME\n"
    assert [each.split()[0].partition(":")[2] for each in left_to_do(source(text))] == ["2", "3", "4", "4"]
    assert list(left_to_do(source('"NotImplementedError"  # nothing\n'))) == []


@pytest.mark.parametrize("word", RARE_WORDS)
def test_rare_words_in_text_of_any_kind(word: str) -> None:
    text = f'"""A {word}."""\na = "{word}"  # {word.upper()}: why\n# none\nraise ValueError(f"{word.title()} {{a}}")\n'
    found = [(1, word), (2, word), (2, word.upper()), (4, word.title())]
    assert list(rare_words(source(text))) == [f"pkg/module.py:{n} {each}: {RARE_WORDS[word]}" for n, each in found]
    assert list(rare_words(Source("docs/a.md", f"A\n\n{word}, b"))) == [f"docs/a.md:3 {word}: {RARE_WORDS[word]}"]


def test_words_that_contain_a_rare_one_are_fine() -> None:
    assert list(rare_words(source("forbears = pyramid + in_amid_of + celestial + anewest + whoevers"))) == []


TESTS = "def test_a(): ...\nclass TestB:\n    async def test_c(self): ...\ndef helper():\n    def test_d(): ...\n"


@pytest.mark.parametrize("name", ["tests/yy/check_a.py", "tests/wire/header_tests.py", "tools/test_a.py", "test_a.py"])
def test_tests_that_pytest_does_not_collect(name: str) -> None:
    assert list(uncollected(Source(name, TESTS))) == [f"{name}:1 test_a", f"{name}:3 test_c"]


@pytest.mark.parametrize("name", ["tests/test_a.py", "tests/wire/headers/test_a.py"])
def test_tests_that_pytest_collects(name: str) -> None:
    assert list(uncollected(Source(name, TESTS))) == []


DECLARED = told(["slow: takes time", "alone(why): by itself", "one_line(version, why): beside that one"])


def test_what_marks_are_told_stands_in_the_settings() -> None:
    assert DECLARED == {"slow": [], "alone": ["why"], "one_line": ["version", "why"]}


@pytest.mark.parametrize(
    ("mark", "taken"),
    [
        ('pytest.mark.slow("because")', "nothing"),
        ("pytest.mark.slow()", "nothing"),
        ("pytest.mark.alone", "(why)"),
        ("pytest.mark.alone()", "(why)"),
        ("pytest.mark.alone('')", "(why)"),
        ("pytest.mark.alone(' ')", "(why)"),
        ("pytest.mark.alone(5)", "(why)"),
        ("pytest.mark.alone(why='')", "(why)"),
        ("mark.one_line('5.3')", "(version, why)"),
    ],
)
def test_marks_that_are_told_something_wrong(mark: str, taken: str) -> None:
    shown = mark.replace('"', "'")
    expected = [f"pkg/module.py:1 {shown}: it takes {taken}"]
    assert list(marks_told_wrongly(source(f"@{mark}\ndef test_a(): ..."), DECLARED)) == expected
    assert list(marks_told_wrongly(source(f"pytestmark = [{mark}]"), DECLARED)) == expected


def test_marks_that_are_told_what_they_take() -> None:
    text = """
@pytest.mark.slow
@pytest.mark.alone("it measures")
@pytest.mark.one_line("5.3", why="the other line has none")
@pytest.mark.parametrize("a", [pytest.param(1, marks=pytest.mark.alone(WHY))])
def test_a(a): return other.slow("x")
"""
    assert list(marks_told_wrongly(source(text), DECLARED)) == []
