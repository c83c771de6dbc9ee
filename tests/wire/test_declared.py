"""Declared classes: classes of attrs that are finished on first use."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from typing import ClassVar

import attrs
import pytest

from rocketpy.wire.declared import finish
from rocketpy.wire.fields import Header, boolean, header, int32, text
from rocketpy.wire.json_body import Body, body, member


@header(1)
class Base(Header):
    """With a field that its subclass declares again."""

    name: str = text()
    count: int = int32(default=0)


@header(2, answer=True)
class Derived(Base):
    """Derived, and with a class variable."""

    kind: ClassVar[str] = "derived"
    name: str = text(name="NAME")
    flag: bool | None = boolean(default=None)


@body
class Pair(Body):
    """A default that is made for each instance."""

    left: list[int] = member(factory=list)
    right: int = 7


def test_a_derived_class_can_be_used_before_and_after_its_base() -> None:
    assert Derived(name="n").to_ext() == {"count": "0", "NAME": "n"}
    assert Base(name="n", count=2).to_ext() == {"name": "n", "count": "2"}
    assert [field.name for field in Derived.wire_fields] == ["count", "NAME", "flag"]
    assert [field.name for field in Base.wire_fields] == ["name", "count"]
    assert (Base.codes, Base.is_answer, Derived.codes, Derived.is_answer) == ((1,), False, (2,), True)
    assert Derived.kind == "derived"


def test_the_fields_of_a_base_that_is_finished_are_not_taken_for_those_of_a_class_that_is_not() -> None:
    finish(Base)

    @header()
    class Late(Base):
        more: str | None = text(default=None)

    assert [field.attribute for field in Late.wire_fields] == ["name", "count", "more"]
    assert Late(name="n", more="m").more == "m"


def test_instances_behave_like_those_of_attrs() -> None:
    one = Derived(name="n", flag=True)
    assert one == Derived(name="n", flag=True) != Derived(name="n")
    assert one != Base(name="n")
    assert repr(one) == "Derived(count=0, name='n', flag=True)"
    changed = attrs.evolve(one, count=3)  # type: ignore[misc]  # mypy does not know how the class is made
    assert changed == Derived(name="n", count=3, flag=True)
    assert copy.copy(one) == pickle.loads(pickle.dumps(one)) == one
    assert Pair().left is not Pair().left
    assert Pair(left=[1]) == Pair(left=[1], right=7)
    assert not hasattr(one, "__dict__")
    with pytest.raises(AttributeError):
        one.naem = "n"  # type: ignore[attr-defined]  # that is the point
    with pytest.raises(TypeError):
        hash(one)


def test_what_is_missing_or_unknown_is_refused_from_the_first_instance_on() -> None:
    @header()
    class Fresh(Header):
        name: str = text()

    for _ in range(2):
        with pytest.raises(TypeError, match="name"):
            Fresh()  # type: ignore[call-arg]  # that is the point
        with pytest.raises(TypeError, match="naem"):
            Fresh(name="n", naem="n")  # type: ignore[call-arg]  # that is the point


def test_many_threads_may_be_the_first() -> None:
    @header()
    class Contested(Base):
        more: str | None = text(default=None)

    together = threading.Barrier(4)
    made: list[Contested] = []

    def make() -> None:
        together.wait()
        made.append(Contested(name="n", more="m"))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [Contested(name="n", more="m")] * 4


def test_nothing_is_compiled_for_what_is_not_used() -> None:
    program = (
        "import attrs\n"
        "from rocketpy.wire.headers import send\n"
        "from rocketpy.wire.bodies import groups\n"
        "done = [attrs.has(kind) for module in (send, groups) for kind in vars(module).values()"
        " if isinstance(kind, type) and kind.__module__ == module.__name__]\n"
        "assert len(done) > 10 and not any(done), done\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
