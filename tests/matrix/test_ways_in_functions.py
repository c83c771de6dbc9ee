"""Every function that a user can hand over is a place from which the ways in are tried."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import attrs
import pytest

import rocketpy
from tests.matrix.calls import CLASSES, FUNCTIONS, NOT_CALLS, public
from tests.matrix.cells import PLACES
from tests.matrix.test_ways_in import HOMES

OF_USERS = re.compile(
    r"Callable|Iterable|Listener|QueuesFunction|Wanted|QueueSelector|OnFailure|RequestHook|RunnerMaker|AsyncCaller"
    r"|Checker|Executor|Serializer"
)
"""Annotations of what calls the user's code."""
FOR_SURFACES = {"_surface"}
AN_ITERABLE = ("an iterable of queues",)
CHECKERS = ("a checker", "an async checker")
HOOKS_OF_SENDS = ("check_forbidden", "before_send", "after_send")
REPORTS = ("on_statistics", "on_statistics, async")
READS = ("a serializer that reads",)
EXECUTORS = ("an executor of a transaction", "an async executor of a transaction")
WHERE = {
    "Producer.send selector": ("a selector",),
    "Producer.send_soon selector": ("a selector of send_soon",),
    "Producer.send_oneway selector": ("a selector",),
    "Producer.request selector": ("a selector",),
    "Producer.request_soon selector": ("a selector of send_soon",),
    "TransactionProducer checker": CHECKERS,
    "TransactionProducer executor": EXECUTORS,
    "TransactionProducer.send_in_transaction executor": EXECUTORS,
    "TransactionProducer.send_in_transaction selector": ("a selector",),
    "TransactionProducer.request selector": ("a selector",),
    "TransactionProducer.request_soon selector": ("a selector of send_soon",),
    "Producer.batches messages": ("an iterable",),
    "Producer.send_many messages": ("an iterable",),
    "Producer.send_many on_failure": ("on_failure",),
    "PushConsumer.subscribe listener": (
        "a plain listener",
        "an async listener",
        "a plain listener, in order",
        "an async listener, in order",
        "a plain listener of a broadcast",
        "an async listener of a broadcast",
    ),
    "LitePullConsumer.assign queues": AN_ITERABLE,
    "LitePullConsumer.pause queues": AN_ITERABLE,
    "LitePullConsumer.resume queues": AN_ITERABLE,
    "LitePullConsumer.on_queues_changed function": ("on_queues_changed",),
    "MQClientInstance hooks": ("a hook, before", "a hook, after"),
    "replay_dead_letters wanted": ("wanted",),
    **{
        f"{config} {hook}": (hook,)
        for config in ("ProducerConfig", "TransactionProducerConfig")
        for hook in HOOKS_OF_SENDS
    },
    "ProducerConfig on_statistics": REPORTS,
    "TransactionProducerConfig on_statistics": REPORTS,
    "PushConsumerConfig on_statistics": ("on_statistics of a push consumer",),
    "LitePullConsumerConfig on_statistics": ("on_statistics of lite pull, async",),
    "PullConsumerConfig on_statistics": ("on_statistics of a pull consumer",),
    "ProducerConfig serializer": ("a serializer",),
    "TransactionProducerConfig serializer": ("a serializer",),
    "PushConsumerConfig serializers": READS,
    "LitePullConsumerConfig serializers": READS,
    "PullConsumerConfig serializers": READS,
    "PushConsumerConfig before_consume": ("before_consume",),
    "PushConsumerConfig after_consume": ("after_consume",),
    "PushConsumerConfig on_assigned": ("on_assigned", "on_assigned, async"),
    "PushConsumerConfig on_revoked": ("on_revoked", "on_revoked, in order"),
    "PushConsumerConfig allocate_strategy": ("a strategy",),
    "PushConsumerConfig offset_store": (
        "an offset store, read",
        "an offset store, write",
        "an async offset store, write",
    ),
    "LitePullConsumerConfig on_assigned": ("on_assigned of lite pull",),
    "LitePullConsumerConfig on_revoked": ("on_revoked of lite pull", "on_revoked of lite pull, async"),
    "LitePullConsumerConfig allocate_strategy": ("a strategy",),
    "LitePullConsumerConfig offset_store": ("an offset store of lite pull, write",),
}
"""What takes a function of the user's, and the places that this is."""


def taken_by(name, function):
    """The parameters of a function that take functions of the user's."""
    for each in inspect.signature(function).parameters.values():
        if OF_USERS.search(str(each.annotation)) and each.name not in FOR_SURFACES:
            yield f"{name} {each.name}"


def taken(surface):
    """Likewise, of everything public on a surface."""
    module = import_module(HOMES[surface])
    for kind in CLASSES:
        made = getattr(module, kind)
        yield from taken_by(kind, made)
        for method in public(made) - NOT_CALLS.get(surface, {}).get(kind, {}).keys():
            if callable(found := getattr(made, method, None)):
                yield from taken_by(f"{kind}.{method}", found)
    for name in FUNCTIONS:
        yield from taken_by(name, getattr(module, name))


def set_by(config):
    """The settings that are functions of the user's, or have some as methods."""
    for field in attrs.fields(config):
        if OF_USERS.search(str(field.type)) or field.name == "offset_store":
            yield f"{config.__name__} {field.name}"


@pytest.mark.parametrize("surface", HOMES)
def test_every_function_of_the_user_s_is_a_place(surface):
    configs = (getattr(rocketpy, name) for name in rocketpy.__all__ if name.endswith("Config"))
    found = {*taken(surface), *(each for config in configs for each in set_by(config))}
    assert found - WHERE.keys() == set(), "give it a place: a spot in tests/matrix/spots.py, if a consumer calls it"
    for each in found:
        assert set(WHERE[each]) <= PLACES[surface].keys(), each
