"""The project's own papers agree with each other: metadata, README, changelog fragments, `dev`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import rocketpy
from tests.rules import listed

ROOT = Path(__file__).resolve().parent.parent
FRAGMENTS = ROOT / "docs" / "newsfragments"
TOP = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")


def pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, ROOT / "dev", *arguments], capture_output=True, text=True)


def test_the_readme_begins_with_two_commands() -> None:
    commands = re.findall(r"^\$ (.*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert commands[:2] == ["./dev quickstart", "./dev test"]


def dead_links(paper: Path, text: str) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        if not (paper.parent / target).exists():
            yield f"{paper.name} links to {target}"


def sends_to_the_index(paper: Path, text: str) -> Iterator[str]:
    """Lines that install what stands under our name in the index."""
    for found in re.findall(r"^.*pip install [\"']?rocketpy(?:\[[^]]*\])?[\"']?\s*$", text, re.MULTILINE):
        yield f"{paper.name}: {found.strip()}"


def odd_fragment(fragment: Path, text: str) -> Iterator[str]:
    kinds = "|".join(kind["directory"] for kind in pyproject()["tool"]["towncrier"]["type"])
    if not re.fullmatch(rf"\+[a-z0-9-]+\.({kinds})\.md", fragment.name):
        yield f"{fragment.name} is named otherwise than +SUBJECT.KIND.md"
    if not text.strip():
        yield f"{fragment.name} says nothing"


def offences(rule: Callable[[Path, str], Iterator[str]], papers: Iterable[Path]) -> list[str]:
    return [each for paper in papers for each in rule(paper, paper.read_text("utf-8"))]


def test_links_in_the_papers_lead_somewhere() -> None:
    papers = [*TOP, *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "howto").glob("*.md")]
    listed(offences(dead_links, papers), "links to what is not there")


def test_no_paper_sends_a_reader_to_the_index() -> None:
    """There the name belongs to another project."""
    listed(offences(sends_to_the_index, [*TOP, *(ROOT / "docs").rglob("*.md")]), "name a file or a checkout to install")


def test_fragments_are_named_by_subject_and_kind() -> None:
    fragments = [fragment for fragment in FRAGMENTS.iterdir() if fragment.name != "README.md"]
    listed(offences(odd_fragment, fragments), "see docs/newsfragments/README.md")


def test_offences_of_papers_are_found() -> None:
    paper = ROOT / "docs" / "a.md"
    text = "[a](design.md#x) [b](nowhere.md) [c](https://x.y)\npip install rocketpy\n  pip install 'rocketpy[lz4]'\n"
    assert list(dead_links(paper, text)) == ["a.md links to nowhere.md"]
    assert list(sends_to_the_index(paper, text + "pip install rocketpy.whl\n")) == [
        "a.md: pip install rocketpy",
        "a.md: pip install 'rocketpy[lz4]'",
    ]
    assert list(odd_fragment(Path("+a-b.misc.md"), "text")) == []
    for name in ("a.misc.md", "+A.misc.md", "+a.other.md", "+a.misc.txt"):
        assert list(odd_fragment(Path(name), "\n")) == [
            f"{name} is named otherwise than +SUBJECT.KIND.md", f"{name} says nothing",
        ]  # fmt: skip


def test_the_changelog_knows_where_the_next_release_goes() -> None:
    assert pyproject()["tool"]["towncrier"]["start_string"] in (ROOT / "CHANGELOG.md").read_text("utf-8")


def unwritten(version: str, changelog: str) -> Iterator[str]:
    """A release without a section of its own; versions between two releases end in `.dev0`."""
    section = re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", changelog, re.MULTILINE)
    if section is None and not version.endswith(".dev0"):
        yield f"CHANGELOG.md has no section for {version}"


def test_the_changelog_has_a_section_for_the_release() -> None:
    listed(unwritten(rocketpy.__version__, (ROOT / "CHANGELOG.md").read_text("utf-8")), "see CONTRIBUTING.md")


def test_a_release_without_a_section_is_found() -> None:
    changelog = "# Changelog\n\n## 0.1.0 (2026-11-28)\n"
    assert list(unwritten("0.1.0", changelog)) == list(unwritten("0.2.0.dev0", changelog)) == []
    assert list(unwritten("0.2.0", changelog)) == ["CHANGELOG.md has no section for 0.2.0"]
    assert list(unwritten("0.1", changelog)) == ["CHANGELOG.md has no section for 0.1"]
    assert list(unwritten("0.1.0+dev", changelog)) == ["CHANGELOG.md has no section for 0.1.0+dev"]


def test_every_extra_is_part_of_all() -> None:
    extras = pyproject()["project"]["optional-dependencies"]
    assert extras["all"] == [f"rocketpy[{','.join(sorted(set(extras) - {'all'}))}]"]


def test_dev_lists_its_tasks() -> None:
    listed = dev("help")
    assert listed.returncode == 0
    for task in (
        "quickstart",
        "test",
        "check",
        "bench",
        "build",
        "docs",
        "interop",
        "spark",
        "newer",
        "doctor",
        "run",
        "help",
    ):
        assert re.search(rf"^  {task} +\S", listed.stdout, re.MULTILINE), task


def test_dev_refuses_an_unknown_task_in_one_line() -> None:
    refused = dev("tset")
    assert refused.returncode == 2
    assert "no task 'tset'" in refused.stderr
    assert "test" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_the_source_distribution_holds_the_tree_and_the_wheel_the_packages_alone() -> None:
    """The tools of `dev` come with the source, as `dev` itself does; nobody's environment gets a package `tools`."""
    targets = pyproject()["tool"]["hatch"]["build"]["targets"]
    assert targets["wheel"]["packages"] == ["rocketpy", "rocketpy_broker_sim", "pyspark_rocketmq"]
    source = set(targets["sdist"]["include"])
    folders = {f"/{path.parent.name}" for path in ROOT.glob("*/__init__.py")}
    assert folders | {"/dev", "/docs"} <= source
    assert all((ROOT / name.removeprefix("/")).exists() for name in source)


def test_scripts_can_be_executed() -> None:
    assert os.access(ROOT / "dev", os.X_OK)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
