"""Dependency groups are unfolded, and split into what is resolved and what is taken as it is."""

from __future__ import annotations

from pathlib import Path

from tools.requirements import group_requirements, read_pyproject, split

ROOT = Path(__file__).resolve().parents[2]


def test_included_groups_are_unfolded() -> None:
    groups = {"a": ["x>=1"], "b": [{"include-group": "a"}, "y"]}
    assert list(group_requirements("b", groups)) == ["x>=1", "y"]


def test_data_is_taken_without_what_it_depends_on() -> None:
    assert split(["a", "data", "b"], {"a": ["x"], "b": ["y"], "data": ["z==1"]}) == (["x", "y"], ["z==1"])


def test_every_group_of_this_project_can_be_unfolded() -> None:
    groups = read_pyproject(ROOT)["dependency-groups"]
    assert {name for name in groups if not list(group_requirements(name, groups))} == set()
