"""Pins the public names: a name appears or goes by a decision, never by accident."""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import rocketpy
import rocketpy.admin
import rocketpy.aio
import rocketpy.spark
import rocketpy.sync
from tests.public_names import PUBLIC
from tests.rules import listed


def other_names(module: str, exported: list[str], expected: set[str]) -> Iterator[str]:
    """Names that came or went, stand twice, or are not there."""
    yield from (f"{module} exports {name}, which is not listed" for name in sorted({*exported} - expected))
    yield from (f"{module} no longer exports {name}" for name in sorted(expected - {*exported}))
    yield from (f"{module} exports {name} twice" for name in sorted({*exported}) if exported.count(name) > 1)
    found = importlib.import_module(module)
    yield from (f"{module} has no {name}" for name in exported if not hasattr(found, name))


def test_public_names_are_listed_exist_and_stand_once() -> None:
    listed(
        (
            each
            for module in PUBLIC
            for each in other_names(module, importlib.import_module(module).__all__, PUBLIC[module])
        ),
        "a public name comes or goes by a decision; then write it into tests/public_names.py",
    )


def test_names_that_came_or_went_are_found() -> None:
    assert list(other_names("rocketpy", ["Message", "Producer"], {"Message", "Producer"})) == []
    assert list(other_names("rocketpy", ["Message", "Message", "nobody"], {"Message", "Producer"})) == [
        "rocketpy exports nobody, which is not listed",
        "rocketpy no longer exports Producer",
        "rocketpy exports Message twice",
        "rocketpy has no nobody",
    ]


WORD = re.compile(r"\b[A-Z]\w+\b")
ROLES = ("MQClientInstance", "Producer", "PushConsumer", "LitePullConsumer", "PullConsumer", "Admin")
OF_PYTHON = {"Any", "ClassVar", "ForwardRef", "Future", "Iterator", "Mapping", "None", "Self"}
NOT_FOR_USERS = {
    "ConsumeStatus": "what rates become in an answer to brokers",
    "ContextCode": "of a trace record, and read by its name",
    "MessageType": "likewise",
    "ReceivedProperties": "a Mapping, and annotated as one",
    "SystemProperties": "likewise",
    "TrioClient": "how roles share a client",
    "UserProperties": "a MutableMapping, and annotated as one",
}


def returned(cls: type) -> set[str]:
    """Names of types that properties, methods and fields of a class give to who uses it."""
    kinds: list[object] = []
    for base in cls.__mro__:
        if base.__module__.startswith("rocketpy"):
            kinds += [kind for name, kind in vars(base).get("__annotations__", {}).items() if name[0] != "_"]
            for name, member in vars(base).items():
                function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
                if name[0] != "_" and inspect.isfunction(function):
                    kinds.append(function.__annotations__.get("return"))
    return {word for kind in kinds for word in WORD.findall(str(kind))} - OF_PYTHON - set(NOT_FOR_USERS)


def not_exported(module: ModuleType) -> Iterator[str]:
    """Types that users of a surface get from its roles, or from what they got, and cannot import to write them down."""
    seen, left = set(ROLES), [*ROLES]
    while left:
        name = left.pop()
        kind = getattr(module, name, None) or getattr(rocketpy, name, None) or getattr(rocketpy.admin, name)
        for each in returned(kind) - seen - {*dir(builtins)}:
            seen.add(each)
            if each not in rocketpy.__all__ and each not in rocketpy.admin.__all__:
                yield f"{name} gives {each}, which rocketpy does not export"
            elif not each.endswith("Config"):
                left.append(each)


def test_what_users_get_can_be_imported() -> None:
    listed(
        (each for module in (rocketpy.sync, rocketpy.aio) for each in not_exported(module)),
        "export it, or list why not (NOT_FOR_USERS)",
    )


def test_a_type_that_is_not_exported_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocketpy, "__all__", [name for name in rocketpy.__all__ if name != "QueueStatus"])
    [missing] = not_exported(rocketpy.sync)
    assert missing.endswith("ConsumerStatus gives QueueStatus, which rocketpy does not export")


# --- the surfaces: the same names and parameters -------------------------------------------------------

# What only a client, or a surface built on top, calls.
INTERNAL = {
    "Producer": set(),
    "PushConsumer": set(),
    "LitePullConsumer": set(),
    "PullConsumer": set(),
    "Admin": set(),
    "MQClientInstance": {
        "check_here", "check_open", "register_consumer", "register_producer", "services",
        "unregister_consumer", "unregister_producer",
    },
}  # fmt: skip
BLOCKING_ONLY = {"start", "close", "send_soon", "request_soon"}
"""The exceptions: blocking code may have no block to open and close things in, and no task to await a send in."""
TRIO_ONLY = {"run"}
"""For a nursery that holds it open; the others have `start`."""
ASYNCIO_ONLY = {"start", "aclose"}
"""Tasks that open and close may be different ones there, which trio's nurseries do not allow."""
FACADE_ONLY = {"trio_client"}
"""For the roles that share a client."""
ATTRIBUTES = {"config", "client_id"}
"""Set in `__init__` on the trio surface, so the class does not show them."""
AWAITED = " | AsyncIterable[Message]"
"""What may be given besides where there is something to await it with."""
RUNNERS = {"_surface"}
"""What differs between the surfaces: for a surface to choose, not for its users."""
SURFACES = {"trio": rocketpy, "blocking": rocketpy.sync, "asyncio": rocketpy.aio}


def public(surface: str, cls: str) -> set[str]:
    """The names of a class that are for users."""
    names = {name for name in dir(getattr(SURFACES[surface], cls)) if not name.startswith("_")} - ATTRIBUTES
    return names - (INTERNAL[cls] | TRIO_ONLY if surface == "trio" else FACADE_ONLY)


def signature(surface: str, cls: str, method: str) -> tuple[list[tuple[object, ...]], object]:
    """Names, kinds, defaults and annotations of the parameters, and what is returned."""
    found = inspect.signature(getattr(getattr(SURFACES[surface], cls), method))
    parameters = [
        (each.name, each.kind, each.default, str(each.annotation).removesuffix(AWAITED))
        for each in found.parameters.values()
        if each.name not in RUNNERS
    ]
    return parameters, found.return_annotation


def methods(cls: str) -> list[str]:
    trio = getattr(rocketpy, cls)
    return ["__init__", *sorted(name for name in public("trio", cls) if callable(getattr(trio, name)))]


def other_members(cls: str) -> Iterator[str]:
    """Names of a class that one surface has and the trio surface has not, or the other way round."""
    trio = public("trio", cls)
    for surface, only in (("blocking", BLOCKING_ONLY), ("asyncio", ASYNCIO_ONLY)):
        there = public(surface, cls) - only
        yield from (f"{surface} {cls} lacks {name}" for name in sorted(trio - there))
        yield from (f"{surface} {cls}.{name} is not on trio" for name in sorted(there - trio))


def test_the_page_about_the_surfaces_names_what_differs() -> None:
    page = (Path(__file__).parents[1] / "docs/tutorial/three-surfaces.md").read_text()
    rows = page.partition("## What differs")[2].partition("##")[0].splitlines()
    columns = [[cell.strip() for cell in row.split("|")[2:5]] for row in rows if row.startswith("|")]
    blocking, trio, asyncio = ("\n".join(column) for column in zip(*columns, strict=True))
    named = re.compile(r"(\w+)(?:\(\))?`").findall
    assert set(named(blocking)) >= BLOCKING_ONLY
    assert set(named(asyncio)) >= ASYNCIO_ONLY
    assert "await nursery.start(it.run)" in trio
    assert not set(named(trio)) & (BLOCKING_ONLY | ASYNCIO_ONLY)
    assert not set(named(blocking) + named(asyncio)) & TRIO_ONLY
    assert not set(named(asyncio)) & (BLOCKING_ONLY - ASYNCIO_ONLY)


def other_parameters(surface: str, cls: str, method: str) -> Iterator[str]:
    """Parameters and what is returned, where a surface has others than trio."""
    if signature(surface, cls, method) != signature("trio", cls, method):
        yield f"{surface} {cls}.{method}{inspect.signature(getattr(getattr(SURFACES[surface], cls), method))}"


def other_waiting(surface: str, cls: str, method: str) -> Iterator[str]:
    """Methods that are awaited where they should not be, or the other way round."""
    awaited = {name: inspect.iscoroutinefunction(getattr(getattr(SURFACES[name], cls), method)) for name in SURFACES}
    if awaited[surface] != (awaited["trio"] and surface == "asyncio"):
        yield f"{surface} {cls}.{method} is {'a coroutine' if awaited[surface] else 'a plain'} function"


def other_properties(surface: str, cls: str) -> Iterator[str]:
    """Properties of the trio surface that are something else on this one."""
    trio, facade = getattr(rocketpy, cls), getattr(SURFACES[surface], cls)
    properties = {name for name in public("trio", cls) if isinstance(getattr(trio, name), property)} | ATTRIBUTES
    for name in sorted(properties & set(dir(facade))):
        if not isinstance(getattr(facade, name), property):
            yield f"{surface} {cls}.{name} is no property"


FACADES = ("blocking", "asyncio")
METHODS = [(surface, cls, method) for surface in FACADES for cls in INTERNAL for method in methods(cls)]


def test_the_surfaces_have_the_same_names() -> None:
    listed(
        (each for cls in INTERNAL for each in other_members(cls)),
        "give it to every surface, or list why not (INTERNAL, TRIO_ONLY, BLOCKING_ONLY, ASYNCIO_ONLY)",
    )


def test_a_consumer_shows_users_what_is_for_them() -> None:
    for cls in ("PushConsumer", "LitePullConsumer", "PullConsumer"):
        made = getattr(rocketpy, cls)("g", namesrv="127.0.0.1:9876")
        assert {name for name in vars(made) if not name.startswith("_")} == {"client", "config", "outside"}


def test_the_surfaces_have_the_same_parameters() -> None:
    assert len(METHODS) >= 30
    listed((each for row in METHODS for each in other_parameters(*row)), "names, kinds, defaults and types are trio's")


def test_what_is_awaited_on_trio_is_awaited_on_asyncio_and_nothing_on_the_blocking_surface() -> None:
    listed((each for row in METHODS for each in other_waiting(*row)), "wait as the trio surface does")


def test_functions_are_the_same_on_every_surface() -> None:
    parameters = {name: list(inspect.signature(SURFACES[name].replay_dead_letters).parameters) for name in SURFACES}
    assert parameters["trio"] == parameters["blocking"] == parameters["asyncio"]


def test_properties_are_properties_on_every_surface() -> None:
    listed(
        (each for surface in FACADES for cls in INTERNAL for each in other_properties(surface, cls)),
        "make it a property, as on trio",
    )


def test_what_differs_between_surfaces_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(self: object, *, extra: int) -> None: ...

    for broken in (rocketpy.sync.Producer, rocketpy.aio.Producer):
        monkeypatch.setattr(broken, "send", send)
    monkeypatch.setattr(rocketpy.aio.Producer, "more", send, raising=False)
    monkeypatch.setattr(rocketpy.aio.Producer, "send_many", lambda self: None)
    monkeypatch.setattr(rocketpy.sync.Producer, "is_open", "no property")
    monkeypatch.setattr(rocketpy.Producer, "alone", send, raising=False)
    assert list(other_members("Producer")) == [
        "blocking Producer lacks alone", "asyncio Producer lacks alone", "asyncio Producer.more is not on trio",
    ]  # fmt: skip
    assert list(other_parameters("asyncio", "Producer", "send")) == [
        "asyncio Producer.send(self: 'object', *, extra: 'int') -> 'None'"
    ]
    assert list(other_parameters("asyncio", "Producer", "queues")) == []
    assert list(other_waiting("blocking", "Producer", "send")) == ["blocking Producer.send is a coroutine function"]
    assert list(other_waiting("asyncio", "Producer", "send")) == []
    assert list(other_waiting("asyncio", "Producer", "send_many")) == ["asyncio Producer.send_many is a plain function"]
    assert list(other_properties("blocking", "Producer")) == ["blocking Producer.is_open is no property"]


def test_values_are_the_very_same_on_every_surface() -> None:
    values = ("Message", "MessageExt", "ProducerConfig", "SendResult", "ConsumeResult", "RetryLater")
    listed(
        (
            f"{surface} {cls}"
            for cls in values
            for surface in FACADES
            if getattr(SURFACES[surface], cls) is not getattr(rocketpy, cls)
        ),
        "take values from rocketpy as they are",
    )


@pytest.mark.parametrize("module", [rocketpy.sync, rocketpy.aio])
@pytest.mark.parametrize("name", ["RocketMQError", "by_hash"])
def test_what_all_surfaces_share_is_said_to_be_at_the_top(module: ModuleType, name: str) -> None:
    with pytest.raises(
        AttributeError, match=rf"^module '{module.__name__}' has no attribute '{name}': write rocketpy\.{name}$"
    ):
        getattr(module, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'Nothing'$"):
        module.Nothing  # noqa: B018 - looking it up is all
