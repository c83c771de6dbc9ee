"""The rules of `tests/rules.py` find what breaks them, and nothing else."""

from __future__ import annotations

import pytest

from tests.rules import (
    MAX_FUNCTION_LINES,
    MAX_LINES,
    Source,
    cancelled_caught,
    left_to_do,
    listed,
    long_file,
    long_functions,
    no_docstring,
    shields,
)


def source(text: str) -> Source:
    return Source("pkg/module.py", text)


def test_all_offences_are_listed_with_what_to_do_about_them() -> None:
    listed([], "never said")
    with pytest.raises(AssertionError, match=r"(?s)^mend it:\n  a\.py:1\n  b\.py:2"):
        listed(iter(["a.py:1", "b.py:2"]), "mend it")


def test_long_files() -> None:
    assert list(long_file(source("x\n" * MAX_LINES))) == []
    assert list(long_file(source("x\n" * (MAX_LINES + 1)))) == ["pkg/module.py has 501 lines"]


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


def test_work_put_off() -> None:
    mark = "TO" + "DO"
    text = f'a = "{mark}"\n# {mark}: later\nraise NotImplementedError\nraise NotImplementedError()  # FIX' + "ME\n"
    assert [each.split()[0].partition(":")[2] for each in left_to_do(source(text))] == ["2", "3", "4", "4"]
    assert list(left_to_do(source('"NotImplementedError"  # nothing\n'))) == []
