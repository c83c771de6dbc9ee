"""Functions that are imported already take the code of a changed file; what runs at import cannot."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from tools.mutants.patching import Live

TEXT = textwrap.dedent(
    """
    import functools

    LIMIT = 10

    def plain(n=1):
        return n + 100

    class Thing:
        size = 5

        @property
        def both(self):
            return self.size + 101

    def makes(n):
        def inner():
            return n + 102
        return inner

    made = makes(1)

    @functools.lru_cache
    def cached():
        return 103

    async def waits():
        return [n + 104 for n in range(1)]

    def free(n):
        m = n
        return lambda: m
    """
)


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    path = tmp_path / "patched.py"
    path.write_text(TEXT, "utf-8")
    spec = importlib.util.spec_from_file_location("patched", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(coroutine) -> object:
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    return ended.value.value


def patch(module: ModuleType, old: str, new: str) -> bool:
    assert module.__file__ is not None
    return Live().patch(module.__file__, TEXT, TEXT.replace(old, new))


@pytest.mark.parametrize(
    ("old", "call", "result"),
    [
        ("100", lambda module: module.plain(), 8),
        ("101", lambda module: module.Thing().both, 12),
        ("102", lambda module: module.makes(2)(), 9),
        ("102", lambda module: module.made(), 8),
        ("103", lambda module: module.cached(), 7),
        ("104", lambda module: run(module.waits()), [7]),
    ],
    ids=["function", "method", "closure", "closure that was made before", "decorated", "async"],
)
def test_functions_do_what_the_changed_file_says(module: ModuleType, old: str, call, result: object) -> None:
    for _ in range(100):  # code that ran often is specialised, and still the same
        module.plain()
    assert patch(module, old, "7")
    assert call(module) == result


@pytest.mark.parametrize(
    "change", [("= 10", "= 11"), ("n=1", "n=2"), ("size = 5", "size = 6"), ("def free", "def fre")]
)
def test_what_ran_at_import_cannot_be_patched(module: ModuleType, change: tuple[str, str]) -> None:
    assert not patch(module, *change)
    assert module.plain() == 101


def test_a_closure_that_closes_over_something_else_cannot_be_patched(module: ModuleType) -> None:
    assert not patch(module, "return n + 102", "return 102")
    assert module.made() == 103


def test_a_module_that_is_not_imported_cannot_be_patched(tmp_path: Path) -> None:
    assert not Live().patch(str(tmp_path / "never.py"), TEXT, TEXT.replace("100", "7"))
