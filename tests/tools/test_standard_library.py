"""`dev` and its tools need nothing but the standard library: they run before anything is installed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LOADS_ALL = """
import json, pkgutil, runpy, sys
sys.path.insert(0, sys.argv[1])
runpy.run_path(sys.argv[1] + "/dev", run_name="dev")
import examples.spark_demo.java, tools
for module in pkgutil.iter_modules(tools.__path__):
    if not module.ispkg:
        __import__("tools." + module.name)
print(json.dumps(sorted(name for name in sys.modules if not name.startswith("_"))))
"""


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module that is named by an import, those inside of functions included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def file_of(module: str) -> Path | None:
    """The file of a module of this tree; None for every other one."""
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def offenders(starts: list[Path]) -> list[str]:
    """Follow imports from there through this tree; name those that lead to neither of the two."""
    waiting, seen, wrong = list(starts), set(starts), []
    while waiting:
        path = waiting.pop()
        for module in imported(ast.parse(path.read_text("utf-8"))):
            top = module.partition(".")[0]
            if top in sys.stdlib_module_names:
                continue
            if top not in {"tools", "examples"}:
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
                continue
            names = module.split(".")
            chain = {file_of(".".join(names[:depth])) for depth in range(1, len(names) + 1)}
            new = {file for file in chain if file is not None} - seen
            waiting.extend(new)
            seen |= new
    return sorted(wrong)


def test_every_import_is_of_the_standard_library() -> None:
    """Tools that are a folder of their own run in the environment, as tasks do, and may use what it holds."""
    assert offenders([ROOT / "dev", *(ROOT / "tools").glob("*.py")]) == []


def test_the_rule_follows_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").touch()
    (tmp_path / "tools" / "deep.py").write_text("def f():\n    import trio\n")
    (tmp_path / "dev").write_text("import json\nfrom tools import deep\n")
    assert offenders([tmp_path / "dev"]) == ["tools/deep.py imports trio"]


def test_all_of_it_loads_where_nothing_is_installed() -> None:
    command = [sys.executable, "-I", "-S", "-B", "-c", LOADS_ALL, str(ROOT)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert ran.returncode == 0, ran.stderr
    known = sys.stdlib_module_names | {"tools", "examples"}
    loaded = json.loads(ran.stdout)
    assert {"tools.environment", "examples.spark_demo.java"} <= set(loaded)
    assert [name for name in loaded if name.partition(".")[0] not in known] == []
