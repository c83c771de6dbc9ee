"""The page about architecture shows the folders and files that there are, and names functions that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

from tests.rules import listed

ROOT = Path(__file__).resolve().parents[1]
WIDEST = 85
"""Columns that fit beside the menu of the built page."""
APART = {"__init__", "__main__", "_version"}
"""Modules that are no part: what runs them says so in its own words."""


def diagram(page: str) -> list[str]:
    (found,) = re.findall(r"^```text\n(rocketpy .+?)^```$", page, re.MULTILINE | re.DOTALL)
    return found.splitlines()


def columns(lines: list[str]) -> tuple[list[str], list[str], list[str]]:
    """The layers of either package, and what one imports of the other, as lines of the diagram."""
    _, right = lines[0].split()
    middle = lines[0].index(right)
    ours, theirs = [line[:middle] for line in lines[1:]], [line[middle:] for line in lines[1:]]
    arrow = next(at for at, line in enumerate(theirs) if line.strip() == "|")
    return ours, theirs[:arrow], theirs[arrow + 2 :]


def names(lines: Iterable[str]) -> list[str]:
    return [name for line in lines for name in re.findall(r"\w+", line.partition("(")[0])]


def parts(package: str) -> set[str]:
    """The folders and modules of a package."""
    found = {path.stem for path in (ROOT / package).glob("*.py")} | {
        path.parent.name for path in (ROOT / package).glob("*/__init__.py")
    }
    return found - APART


def imported() -> set[str]:
    """What the servers import of the client, the commands aside, which may use all of it."""
    files = (path for path in (ROOT / "rocketpy_broker_sim").rglob("*.py") if "cli" not in path.relative_to(ROOT).parts)
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_text("utf-8"))))
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {module.split(".")[1] for module in modules if module.startswith("rocketpy.")} - APART


def differences(where: str, shown: list[str], there: set[str]) -> Iterator[str]:
    yield from (f"{where} has no {name}" for name in sorted(set(shown) - there))
    yield from (f"{name} of {where} is not shown" for name in sorted(there - set(shown)))
    yield from (f"{name} of {where} is shown twice" for name in sorted(set(shown)) if shown.count(name) > 1)


def wrong(page: str) -> Iterator[str]:
    lines = diagram(page)
    ours, theirs, shared = columns(lines)
    yield from differences("rocketpy", names(ours), parts("rocketpy"))
    yield from differences("rocketpy_broker_sim", names(theirs), parts("rocketpy_broker_sim"))
    yield from differences("what the servers import", names(shared), imported() | {"rocketpy"})
    yield from (f"wider than {WIDEST} columns: {line}" for line in lines if len(line) > WIDEST)


def page() -> str:
    return (ROOT / "docs" / "architecture.md").read_text("utf-8")


@pytest.mark.slow
def test_the_diagram_shows_every_folder_and_no_other() -> None:
    listed(wrong(page()), "correct the diagram in docs/architecture.md")


@pytest.mark.slow
def test_what_is_wrong_with_the_diagram_is_found() -> None:
    def changed(old: str, new: str) -> list[str]:
        assert old in page()
        return list(wrong(page().replace(old, new)))

    assert changed("  cli | spark | otel ", "  cli | spark | ha   ") == [
        "rocketpy has no ha", "otel of rocketpy is not shown",
    ]  # fmt: skip
    assert changed("faults    (inj", "ha        (inj") == [
        "rocketpy_broker_sim has no ha", "faults of rocketpy_broker_sim is not shown",
    ]  # fmt: skip
    assert changed("  trace  ", "  client ") == ["trace of rocketpy is not shown", "client of rocketpy is shown twice"]
    assert changed(".rates, .remoting, ", ".remoting, ") == ["rates of what the servers import is not shown"]
    wider = changed("memory budget)", "memory budget of a server)")
    assert [each[:22] for each in wider] == ["wider than 85 columns:"]


def steps(page: str) -> list[tuple[int, str, str]]:
    """The walk of a message: number, module and function of each step."""
    _, _, section = page.partition("\n## The way of a message, step by step\n")
    rows = re.findall(r"^\| (\d+) \| `([\w.]+)` \| `([\w.]+)` \| .+ \|$", section.partition("\n## ")[0], re.MULTILINE)
    return [(int(number), module, name) for number, module, name in rows]


def missing(page: str) -> Iterator[str]:
    walk = steps(page)
    numbers = [number for number, _, _ in walk]
    if numbers != list(range(1, len(walk) + 1)):
        yield f"the steps are numbered {numbers}"
    for _, module, name in walk:
        try:
            attrgetter(name)(import_module(module))
        except (ImportError, AttributeError) as exc:
            yield f"{module}.{name}: {exc}"


def test_every_function_that_the_walk_of_a_message_names_is_there() -> None:
    rows = [line for line in page().splitlines() if re.match(r"\| \d+ \|", line)]
    assert len(steps(page())) == len(rows) > 40, "each row is a step that can be read"
    listed(missing(page()), "correct the walk of a message in docs/architecture.md")


def test_what_is_wrong_with_the_walk_is_found() -> None:
    def changed(old: str, new: str) -> list[str]:
        assert old in page()
        return list(missing(page().replace(old, new)))

    assert changed("`Producer.send`", "`Producer.sent`") == [
        "rocketpy.producer.producer.Producer.sent: type object 'Producer' has no attribute 'sent'"
    ]
    assert changed("`rocketpy.remoting.pool`", "`rocketpy.remoting.pools`") == [
        "rocketpy.remoting.pools.ConnectionPool.nowait: No module named 'rocketpy.remoting.pools'"
    ]
    (numbered,) = changed("| 2 | `", "| 1 | `")
    assert numbered.startswith("the steps are numbered [1, 1, 3, ")
