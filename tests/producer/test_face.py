"""The public face of producers: every public name is there for users, has a docstring, and is on the reference page."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from pathlib import Path

import pytest

import rocketpy
from rocketpy.client.lifecycle import NotPicklable
from rocketpy.client.reopening import Reopenable

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "trio.md"
NOT_ON_THE_PAGE: dict[str, Collection[str]] = {"Producer": (), "TransactionProducer": ()}
"""Public names that are for no user."""
ATTRIBUTES = {"client", "config", "outside"}
"""Public attributes of an object, which its class does not show: its client and settings, and what is for the other
surfaces."""
LEFT_OUT = (Reopenable, NotPicklable, object)
"""Base classes whose names the page does not show."""


def made(name: str) -> rocketpy.Producer:
    settings = {"group": "pg", "namesrv": "127.0.0.1:9876"}
    if name == "TransactionProducer":
        return rocketpy.TransactionProducer(**settings, checker=lambda message: "commit")
    return rocketpy.Producer(**settings)


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def excluded(name: str) -> set[str]:
    """The names that the page leaves out of a class."""
    [options] = re.findall(rf"autoclass:: rocketpy\.{name}\n((?:   :.*\n)*)", PAGE.read_text("utf-8"))
    assert ":members:\n" in options, f"the page shows all members of {name}"
    return {each.strip() for line in re.findall(":exclude-members:(.*)", options) for each in line.split(",")}


@pytest.mark.parametrize("name", NOT_ON_THE_PAGE)
def test_every_public_name_of_a_producer_is_for_users(name: str) -> None:
    kind = getattr(rocketpy, name)
    assert excluded(name) == set(NOT_ON_THE_PAGE[name])
    for each in public(kind) - set(NOT_ON_THE_PAGE[name]):
        assert inspect.getdoc(getattr(kind, each)), f"{name}.{each} has no docstring"
        home = next(base for base in kind.__mro__ if each in vars(base))
        assert home not in LEFT_OUT, f"{name}.{each} is not on the page"


@pytest.mark.parametrize("name", NOT_ON_THE_PAGE)
def test_an_object_shows_little_more_than_its_class(name: str) -> None:
    producer = made(name)
    assert public(producer) - public(type(producer)) == ATTRIBUTES
