"""Mutants: which changes a file admits, which of them a seed chooses, and which are noticed in a tiny project."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tools.mutants import job
from tools.mutants.__main__ import main
from tools.mutants.operators import mutants_of
from tools.mutants.sample import Sources
from tools.mutants.source import Source

CHANGES = {
    "if a < b: pass": ["if a <= b: pass", "if a >= b: pass"],
    "if (a) not in (b): pass": ["if (a) in (b): pass"],
    "if a is None: pass": ["if a is not None: pass"],
    "if a and b or c: pass": ["if a and b and c: pass", "if a or b or c: pass"],
    "if not a: pass": ["if  a: pass"],
    "if a.b: pass": ["if (not a.b): pass"],
    "while f(): continue": ["while (not f()): continue", "while f(): break"],
    "a = b * (c)": ["a = b // (c)"],
    "a += b": ["a -= b"],
    "a = -b": ["a =  b"],
    "a = 5": ["a = 4", "a = 6"],
    "a = 0x0": ["a = (-1)", "a = 1"],
    "a = 0.5": ["a = 1.5"],
    "a = True": ["a = False"],
    "a = 'x'": ['a = ""'],
    "a = b'x'": ['a = b""'],
    "a = f'{b + 1}'": ['a = ""'],
    "a = b[c:d]": ["a = b[None:d]", "a = b[c:None]"],
    "def f(): return a": ["def f(): return None"],
    "def f(): g(a)": ["def f(): pass"],
    "async def f(): await g(a)": ["async def f(): pass"],
    "def f(): a = b": ["def f(): pass"],
    "def f(): a: A = b": ["def f(): pass"],
    "def f(\n  a=(\n    1,\n)): pass": ["def f(\n  a=(\n    0,\n)): pass", "def f(\n  a=(\n    2,\n)): pass"],
    "def f():\n    g(\n        a,\n    )\n    b": ["def f():\n    pass\n\n\n    b"],
    "'ä'; a = 'ö' if b == c else d": ["'ä'; a = 'ö' if b != c else d", "'ä'; a = \"\" if b == c else d"],
}

LEFT_ALONE = [
    '"""What this is."""',
    "def f() -> None:\n    'What it does.'",
    "a: 'A'",
    "def f(a: 'A', b: A | B) -> 'C': pass",
    "__all__ = ['a', 'b']",
    "class A:\n    __slots__ = ('a',)",
    "T = TypeVar('T')",
    "def f(): logger.warning('%d', 1)",
    "def f(): self._log.info('%d', 1)",
    "if TYPE_CHECKING:\n    a = 1",
    "def f(): raise Error('why', f'{why}')",
    "assert a, 'why'",
    "@define(slots=True)\nclass A: pass",
    "@overload\ndef f(a: int = 1): pass",
    "def f(): return None",
    "a = 'x' % b",
    "a = b",
]


def changed(text: str) -> list[str]:
    source = Source("a.py", text)
    return sorted(source.replaced(mutant.span, mutant.new) for mutant in mutants_of(source))


def test_every_operator_changes_what_it_says() -> None:
    for text, expected in CHANGES.items():
        assert changed(text) == sorted(expected), text
        for new in expected:
            compile(new, "a.py", "exec")


def test_what_only_people_and_type_checkers_read_is_left_alone() -> None:
    for text in LEFT_ALONE[:-2]:
        assert changed(text) == [], text
    assert changed("a = 'x' % b") == ['a = "" % b']
    assert changed("a = b") == []


def test_a_mutant_is_named_by_its_place() -> None:
    source = Source("p/a.py", "a = 1\nif ä < b: pass\n")
    assert [mutant.name for mutant in mutants_of(source)] == [
        "p/a.py:1:5 1 becomes 0",
        "p/a.py:1:5 1 becomes 2",
        "p/a.py:2:6 < becomes <=",
        "p/a.py:2:6 < becomes >=",
    ]


def test_what_runs_at_import_is_told_from_what_runs_in_functions() -> None:
    source = Source("a.py", "a = 1\ndef f(b=2):\n    return 3\nclass A:\n    c = 4\n    def g(self): return 5\n")
    inside = {source.text(mutant.span) for mutant in mutants_of(source) if mutant.in_function}
    assert inside == {"3", "5", "return 3", "return 5"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of which is known what its tests miss."""
    files = {
        "lib/__init__.py": "",
        "lib/pkg/__init__.py": "",
        "lib/pkg/sums.py": """
            LIMIT = 10

            def grade(n):
                return "low" if n < LIMIT else "high"

            def untested(n):
                return not n

            def spin(n):
                while n > 0:
                    n -= 1

            def in_a_process():
                return 7

            from functools import cache

            @cache
            def kept():
                return made()

            def made():
                return 8
        """,
        "tests/test_sums.py": """
            import subprocess
            import sys
            import time
            from lib.pkg.sums import grade, in_a_process, kept, spin

            class Patient(int):
                # A mutant that never ends sleeps, and does not keep the processor busy until it is killed.

                def __gt__(self, other):
                    time.sleep(0.01)
                    return int(self) > other

                def __add__(self, other):
                    return Patient(int(self) + other)

                def __sub__(self, other):
                    return Patient(int(self) - other)

            def test_low():
                assert grade(3) == "low"

            def test_high():
                assert grade(30) == "high"

            def test_spin():
                spin(Patient(3))

            def test_always_fails():
                assert grade(10) == "?"

            def test_kept_is_true():
                assert kept()

            def test_kept():
                assert kept() == 8

            def test_another_process():
                in_a_process()
                code = "from lib.pkg.sums import in_a_process; print(in_a_process())"
                assert subprocess.check_output([sys.executable, "-c", code]) == b"7\\n"
        """,
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = ["--import-mode=importlib"]\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip(), "utf-8")
    return tmp_path


def test_a_seed_always_chooses_the_same(project: Path) -> None:
    def names(seed: int, count: int) -> list[str]:
        return [mutant.name for mutant in Sources(project, ["lib/pkg"]).chosen(seed, count)]

    assert names(1, 9) == names(1, 9)
    assert names(1, 9)[:4] == names(1, 4)
    assert names(1, 9) != names(2, 9)
    assert len(names(1, 1000)) == len(set(names(1, 1000))) < 30


def test_only_one_package(project: Path) -> None:
    sources = Sources(project, ["lib/pkg"])
    assert sources.chosen(1, 9, ["lib/pkg"]) == sources.chosen(1, 9)
    assert sources.chosen(1, 9, ["lib/other"]) == []


def test_what_compiles_to_the_same_is_not_chosen(project: Path) -> None:
    (project / "lib" / "pkg" / "sums.py").write_text("a = -0\n", "utf-8")
    names = [mutant.name for mutant in Sources(project, ["lib/pkg"]).chosen(1, 9)]
    assert sorted(names) == ["lib/pkg/sums.py:1:6 0 becomes -1", "lib/pkg/sums.py:1:6 0 becomes 1"]


@pytest.mark.slow
def test_survivors_of_a_tiny_project(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is tried in copies; what hangs is killed; a test that fails without a change accuses no mutant."""
    monkeypatch.setattr(job, "LEAST", 6.0)  # in which each copy starts a pytest
    before = (project / "lib/pkg/sums.py").read_text("utf-8")
    report = project / "report.json"
    arguments = ["--tree", str(project), "--packages", "lib/pkg", "--json", str(report)]
    assert main([*arguments, "--jobs", "2"]) == 1  # something survived
    states = {row["name"].partition(":")[2]: row["state"] for row in json.loads(report.read_text("utf-8"))["mutants"]}
    assert states == {
        "1:9 10 becomes 9": "survived",
        "1:9 10 becomes 11": "survived",
        "4:5 nothing returned": "killed",
        "4:12 text emptied": "killed",
        "4:23 < becomes <=": "survived",
        "4:23 < becomes >=": "killed",
        "4:36 text emptied": "killed",
        "7:5 nothing returned": "not covered",
        "7:12 not dropped": "not covered",
        "10:13 > becomes >=": "survived",
        "10:13 > becomes <=": "survived",
        "10:15 0 becomes -1": "survived",
        "10:15 0 becomes 1": "survived",
        "11:9 statement dropped": "timed out",
        "11:11 -= becomes +=": "timed out",
        "11:14 1 becomes 0": "timed out",
        "11:14 1 becomes 2": "survived",
        "14:5 nothing returned": "killed",
        "14:12 7 becomes 6": "killed",
        "14:12 7 becomes 8": "killed",
        # Noticed by the second caller alone of a function that keeps its results.
        "20:5 nothing returned": "killed",
        "23:5 nothing returned": "killed",
        "23:12 8 becomes 7": "killed",
        "23:12 8 becomes 9": "killed",
    }
    assert (project / "lib/pkg/sums.py").read_text("utf-8") == before
    said = capsys.readouterr().out
    assert "1 tests did not pass without a change" in said
    assert '+    return "low" if n <= LIMIT else "high"' in said
