"""A broker is a list of subsystems: in which order they are gone through, and what requests can reach of them."""

from __future__ import annotations

import ast
import inspect
from functools import partial
from types import ModuleType

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.errors import StoreError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy_broker_sim.broker import processors, send_checks
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.opening import _running
from rocketpy_broker_sim.broker.router import routes_of
from rocketpy_broker_sim.broker.runs import commit_runs, plain_runs
from rocketpy_broker_sim.broker.subsystem import Service, Subsystem
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import settings


class Part(Subsystem):
    """Notes every step."""

    def __init__(self, name: str, steps: list[str]) -> None:
        self.name = name
        self.steps = steps
        self.failure: Exception | None = None

    def note(self, step: str) -> None:
        self.steps.append(f"{self.name} {step}")

    def recover(self) -> None:
        self.note("recovers")
        if self.failure is not None:
            raise self.failure

    def give_back(self) -> None:
        self.note("gives back")

    async def open(self, services: trio.Nursery) -> None:
        self.note("opens")
        await super().open(services)

    def run(self) -> list[Service]:
        return [self.serve]

    async def serve(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.note("is cancelled")

    async def settle(self) -> None:
        self.note("settles")

    async def leave(self) -> None:
        self.note("leaves")

    async def close(self) -> None:
        self.note("closes")

    def abandon(self) -> None:
        self.note("is abandoned")


def broker_of_parts() -> tuple[Broker, list[Part], list[str]]:
    """A broker that has two parts more; only they note what happens."""
    broker, steps = Broker(settings(), MemoryStorage(), network=MemoryNetwork()), list[str]()
    parts = [Part("a", steps), Part("b", steps)]
    broker.subsystems[2:2] = parts
    return broker, parts, steps


async def test_parts_start_in_their_order_and_stop_the_other_way_round(autojump_clock: MockClock) -> None:
    broker, _, steps = broker_of_parts()
    async with _running(broker):
        await wait_all_tasks_blocked()
        assert steps == ["a recovers", "b recovers", "a opens", "b opens"]
        steps.clear()
    cancelled = steps[4:6]
    assert steps[:4] == ["b settles", "a settles", "b leaves", "a leaves"]
    assert sorted(cancelled) == ["a is cancelled", "b is cancelled"]
    assert steps[6:] == ["b closes", "a closes"]


async def test_the_parts_of_a_killed_broker_are_abandoned(autojump_clock: MockClock) -> None:
    broker, _, steps = broker_of_parts()
    async with _running(broker):
        await wait_all_tasks_blocked()
        steps.clear()
        broker.kill()
    assert steps[2:] == ["b is abandoned", "a is abandoned"]
    assert not any("leaves" in step or "closes" in step for step in steps)


def test_what_had_recovered_gives_back_when_a_later_part_fails() -> None:
    broker, (_, second), steps = broker_of_parts()
    storage = broker.storing.storage
    second.failure = StoreError("no")
    with pytest.raises(StoreError, match="no"):
        broker.recover()
    assert steps == ["a recovers", "b recovers", "a gives back"]
    again = Broker(settings(), storage)  # the directory is free again
    again.recover()
    again.store.close()


async def test_what_a_part_persists_is_written_when_it_has_changed(autojump_clock: MockClock) -> None:
    broker = Broker(settings(), MemoryStorage(), network=MemoryNetwork())
    tables = [table for part in broker.subsystems for table in part.persists()]
    of_tables = {"topics.json", "subscriptionGroup.json", "consumerOffset.json"}
    assert {table.file_name for table in tables} == {*of_tables, "consumerFilter.json"}
    async with _running(broker):
        for table in tables:
            table.changed = True
    assert not any(table.changed for table in tables)


async def test_each_figure_of_the_runtime_info_is_measured_by_one_part(
    autojump_clock: MockClock,
) -> None:
    broker = Broker(settings(), MemoryStorage(), network=MemoryNetwork())
    async with _running(broker):
        keys = [key for part in broker.subsystems for key in part.measures()]
        assert len(keys) == len(set(keys))
        assert set(keys) < set(broker.runtime_info())


VIEW_OF = {
    "send": (processors.send, plain_runs),
    "recall": (processors.recall,),
    "timer": (processors.timers,),
    "send_back": (processors.send_back,),
    "transactions": (processors.end_transaction, commit_runs),
    "reply": (processors.reply,),
    "pull": (processors.pull,),
    "query": (processors.query,),
    "queue_offset": (processors.queue_offset,),
    "client_manage": (processors.client_manage,),
    "consumer_manage": (processors.consumer_manage,),
    "locks": (processors.locks,),
    "consume_stats": (processors.consume_stats,),
    "client_calls": (processors.client_calls,),
    "reset_offset": (processors.reset_offset,),
    "admin_topic": (processors.admin_topic,),
    "admin_group": (processors.admin_group,),
    "admin_cleaning": (processors.admin_cleaning,),
    "admin_broker": (processors.admin_broker,),
    "who_consumes": (processors.who_consumes,),
    "producer_list": (processors.producer_list,),
    "topic_stats": (processors.topic_stats,),
    "broker_stats": (processors.broker_stats,),
    "offset_tables": (processors.offset_tables,),
    "queue_entries": (processors.queue_entries,),
    "request_modes": (processors.request_modes,),
    "unavailable": (processors.unavailable,),
}
"""The modules that work on each view."""


def used_of_the_view(*modules: ModuleType) -> set[str]:
    """The attributes that modules ask of what they call `broker`."""
    return {
        node.attr
        for module in modules
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("broker", "self._broker")
    }


@pytest.mark.parametrize("name", VIEW_OF)
def test_a_view_offers_what_its_processors_use_and_nothing_else(name: str) -> None:
    view = getattr(Broker(settings(), MemoryStorage())._views, name)
    assert set(view._fields) == used_of_the_view(*VIEW_OF[name])
    assert not hasattr(view, "__dict__")
    with pytest.raises(AttributeError):
        setattr(view, view._fields[0], None)


def test_the_checks_of_sends_are_offered_what_they_use_and_nothing_else() -> None:
    view = Broker(settings(), MemoryStorage())._views.send.checks._broker
    assert set(view._fields) == used_of_the_view(send_checks)


def test_no_route_leads_to_the_broker_or_a_subsystem() -> None:
    broker = Broker(settings(), MemoryStorage())
    views = [getattr(broker._views, name) for name in VIEW_OF]
    assert set(broker._views._fields) == set(VIEW_OF)
    for route in routes_of(broker._views).values():
        given = route.processor.args if isinstance(route.processor, partial) else (route.processor._broker,)
        assert len(given) == 1
        assert any(given[0] is view for view in views)
    held = [value for view in views for value in view]
    assert not any(isinstance(value, (Broker, Subsystem)) for value in held)


def test_a_processor_works_on_a_view_alone() -> None:
    from rocketpy.wire.codes import RequestCode
    from rocketpy.wire.command import RemotingCommand
    from rocketpy_broker_sim.broker.processors.queue_offset import get_max_offset

    class OnlyReads:
        def __init__(self, reads: object) -> None:
            self.reads = reads

    broker = Broker(settings(), MemoryStorage())
    broker.recover()
    ask = partial(get_max_offset, OnlyReads(broker.store.reads))  # type: ignore[arg-type]
    request = RemotingCommand(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
    assert ask(None, request).ext_fields == {"offset": "0"}  # type: ignore[arg-type]
    broker.store.close()
