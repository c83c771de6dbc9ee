"""The project's own papers agree with each other: metadata, README, changelog fragments, `dev`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FRAGMENTS = ROOT / "docs" / "newsfragments"


def pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, ROOT / "dev", *arguments], capture_output=True, text=True)


def test_the_readme_begins_with_two_commands() -> None:
    commands = re.findall(r"^\$ (.*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert commands[:2] == ["./dev quickstart", "./dev test"]


def test_links_in_the_papers_lead_somewhere() -> None:
    papers = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "howto").glob("*.md"),
    ]
    for paper in papers:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", paper.read_text("utf-8")):
            assert (paper.parent / target).exists(), f"{paper.name} links to {target}"


def test_no_paper_sends_a_reader_to_the_index() -> None:
    """There the name belongs to another project."""
    for paper in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        assert not re.search(r"pip install [\"']?rocketpy(\[[^]]*\])?[\"']?\s*$", paper.read_text(), re.MULTILINE)


def test_fragments_are_named_by_subject_and_kind() -> None:
    kinds = "|".join(kind["directory"] for kind in pyproject()["tool"]["towncrier"]["type"])
    for fragment in FRAGMENTS.iterdir():
        if fragment.name == "README.md":
            continue
        assert re.fullmatch(rf"\+[a-z0-9-]+\.({kinds})\.md", fragment.name), fragment.name
        assert fragment.read_text("utf-8").strip(), f"{fragment.name} says nothing"


def test_the_changelog_knows_where_the_next_release_goes() -> None:
    assert pyproject()["tool"]["towncrier"]["start_string"] in (ROOT / "CHANGELOG.md").read_text("utf-8")


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
    assert targets["wheel"]["packages"] == ["rocketpy", "rocketpy_broker_sim"]
    source = set(targets["sdist"]["include"])
    folders = {f"/{path.parent.name}" for path in ROOT.glob("*/__init__.py")}
    assert folders | {"/dev", "/docs"} <= source
    assert all((ROOT / name.removeprefix("/")).exists() for name in source)


def test_scripts_can_be_executed() -> None:
    assert os.access(ROOT / "dev", os.X_OK)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
