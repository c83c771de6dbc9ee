"""The diagram on the page about architecture shows the folders and files that there are, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

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
    files = (path for path in (ROOT / "rocketpy_broker_sim").rglob("*.py") if "cli" not in path.parts)
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


def test_the_diagram_shows_every_folder_and_no_other() -> None:
    listed(wrong(page()), "correct the diagram in docs/architecture.md")


def test_what_is_wrong_with_the_diagram_is_found() -> None:
    def changed(old: str, new: str) -> list[str]:
        assert old in page()
        return list(wrong(page().replace(old, new)))

    assert changed("  spark | otel ", "  spark | cli  ") == ["rocketpy has no cli", "otel of rocketpy is not shown"]
    assert changed("faults    (inj", "ha        (inj") == [
        "rocketpy_broker_sim has no ha", "faults of rocketpy_broker_sim is not shown",
    ]  # fmt: skip
    assert changed("  trace  ", "  client ") == ["trace of rocketpy is not shown", "client of rocketpy is shown twice"]
    assert changed(".rates, .remoting, ", ".remoting, ") == ["rates of what the servers import is not shown"]
    wider = changed("memory budget)", "memory budget of a server)")
    assert [each[:22] for each in wider] == ["wider than 85 columns:"]
