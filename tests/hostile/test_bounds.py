"""Every bound that is declared is tried: a request at it and one beyond, or several together; this finds the others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.hostile.attacks import attacks
from tests.hostile.routed import routed
from tests.hostile.test_bounds_of_tables import TRIED

ROOT = Path(__file__).resolve().parents[2]
PLACES = (
    "rocketpy_broker_sim/broker",
    "rocketpy_broker_sim/namesrv",
    "rocketpy_broker_sim/serving",
    "rocketpy_broker_sim/config/updates.py",
    "rocketpy_broker_sim/config/broker.py",
    "rocketpy_broker_sim/config/store.py",
    "rocketpy_broker_sim/store/key_queries.py",
    "rocketpy/remoting/limits.py",
    "rocketpy/wire/bodies/registration_steps.py",
    "rocketpy/wire/json_dialect.py",
    "rocketpy/wire/json_literal.py",
    "rocketpy/wire/json_refs.py",
    "rocketpy/wire/limits.py",
    "rocketpy/wire/names.py",
    "rocketpy/wire/properties.py",
)
"""Where bounds of what a peer asks are declared."""
_CONSTANT = re.compile(r"_?(MAX|MOST|LONGEST)_[A-Z_]+|[A-Z_]+_MAX_LENGTH")
_FIELD = re.compile(r"max_[a-z_]+")

ELSEWHERE = {
    # what servers do by themselves
    "admin_cleaning.MOST_LOGGED": "names in a line of the log",
    "subscriptions.MOST_LOGGED": "names in a line of the log",
    "topics.MOST_LOGGED": "names in a line of the log",
    "consumers._MOST_KEPT": "answers that are kept to be sent again",
    "subscriptions._MOST_SHAPES": "settings that groups have in common",
    "turn.MOST_GATHERED": "bytes that are gathered before they are written",
    "resets._MOST_TELLINGS": "how often the broker reports a reset to a client: tests/broker_sim/broker",
    "resets._MOST_ADDRESSES": "to how many clients it does: tests/broker_sim/broker/test_offset_table.py",
    "slices.MOST_SECONDS": "the time of a slice",
    "client_calls._MOST_ASKED": "clients that are asked at a time",
    "lanes.MOST_PENDING": "bytes of answers that are gathered before they leave",
    "registration_pieces.MOST_AT_ONCE": "topics that the broker itself sends at a time",
    "min_broker.MAX_UNDER_WAY": "brokers that the name server tells at a time: tests/broker_sim/namesrv",
    "BrokerConfig.max_error_rate_of_bloom_filter": "how exact bit maps are, in per cent",
    "MessageStoreConfig.max_hash_slot_num": "the size of a file",
    "MessageStoreConfig.max_index_num": "the size of a file",
    "MessageStoreConfig.max_msgs_num_batch": "what one search gives at most, fewer than may be asked for",
    "MessageStoreConfig.max_filter_message_size": "entries that one pull looks at: it is answered with fewer messages",
    "MessageStoreConfig.max_transfer_bytes_on_message_in_memory": "what one pull gives, whatever it asks for",
    "MessageStoreConfig.max_transfer_count_on_message_in_memory": "what one pull gives, whatever it asks for",
    "MessageStoreConfig.max_transfer_bytes_on_message_in_disk": "what one pull gives, whatever it asks for",
    "MessageStoreConfig.max_transfer_count_on_message_in_disk": "what one pull gives, whatever it asks for",
    # of clients
    "names.GROUP_MAX_LENGTH": "the longest group that a client of ours may use; brokers take longer ones",
    # tried in other ways
    "WireLimits.max_inflated": "of bodies of messages, which clients inflate; registrations have a bound of their own",
    "json_refs._LONGEST_PATH": "a longer reference leads nowhere: tests/wire/test_json_limits.py has them",
    "calling.MOST_OF_ONE": "calls that wait for clients: tests/broker_sim/broker/test_client_calls.py",
    "consume_stats._MOST_TOPICS": "tests/broker_sim/broker/test_consume_stats.py",
    "compiling.MOST_WAITING": "expressions that wait: tests/broker_sim/broker/test_compiling.py",
    "group_reads.MOST_PAIRS": "what is forgotten, and refuses nothing: tests/broker_sim/broker/test_consume_stats.py",
    "group_reads.MOST_QUEUES": "likewise",
    "delivery._MOST_CLOSED": "tests/broker_sim/broker/test_half_deleted_topics.py; beyond it, queues are tried sooner",
    "delivery._LONGEST_WAIT_MS": "how long what waits for a queue waits at a time: likewise",
    "request_modes.MOST_MODES": "what is forgotten, and refuses nothing: tests/broker_sim/broker/test_request_modes.py",
    "flows.MOST_COUNTED": "what is not counted apart, and refuses nothing: tests/broker_sim/broker/test_flows.py",
    "flows.MOST_KEPT": "what is forgotten, and refuses nothing: tests/broker_sim/broker/test_flows.py",
    "offset_tables.MOST_GROUPS": "tests/broker_sim/broker/test_offset_tables.py",
    "locks._MOST_BROKER_NAME": "tests/broker_sim/broker/test_locks.py",
    "kv_writer.MAX_WAITING": "waits for a disk that is slow: tests/broker_sim/namesrv/test_kv_writer.py",
    "ServerLimits.max_connections": "more than a process may open on many machines: tests/remoting/test_server.py",
    "BrokerConfig.max_kept_bytes": "the budget of memory: tests/broker_sim/broker/test_tables_in_the_budget.py",
    "ServerLimits.max_kept": "the budget of memory: floods and crowds are held to it",
    "ConnectionLimits.max_parked": "requests of one connection that wait: it is read no further, floods are held to it",
    "dequeue.MOST_OPEN": "timer messages in memory, others wait on the disk: tests/broker_sim/broker/timer",
    "enqueue.MOST_BYTES": "timer messages that are taken at a time, and refuses nothing",
    "clock.MOST_MARKS": "steps of the clock that are remembered, and refuses nothing",
    "turn.MOST_APART": "ends of transactions that are carried out together, and refuses nothing",
    "commit_runs._LONGEST_QUEUE_ID": "a half message with a longer one is committed by itself",
    "window.MOST_SUCCESSORS": "copies of half messages that are known: tests/broker_sim/broker/test_half_window.py",
    "window._LONGEST_KEY": "likewise",
    "half._LONGEST_NUMBER": "a longer number in a property is none: tests/broker_sim/broker/test_half_window.py",
    "ops._LONGEST_OFFSET": "a longer offset is skipped: tests/broker_sim/broker/test_half_window.py",
    "ConnectionLimits.max_in_flight": "requests of our own",
    "ConnectionLimits.max_pending_writes": "peers that do not read: a crowd of them is held to it",
    "Lane.max_age": "seconds that a request waits, by the settings",
}
"""Bounds that no attack is made for, and why."""


def constants(file: Path) -> Iterator[str]:
    """The bounds that a file declares, as constants and as fields of classes, each with its module or its class."""
    tree = ast.parse(file.read_text("utf-8"))
    for node in tree.body:
        for name in _assigned(node):
            if _CONSTANT.fullmatch(name):
                yield f"{file.stem}.{name}"
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.AnnAssign):
                    yield from (f"{node.name}.{name}" for name in _assigned(inner) if _FIELD.fullmatch(name))


def _assigned(node: ast.stmt) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    yield from (target.id for target in targets if isinstance(target, ast.Name))


def declared() -> set[str]:
    files = [file for place in PLACES for file in _files(ROOT / place)]
    return {name for file in files for name in constants(file)}


def _files(place: Path) -> list[Path]:
    return sorted(place.rglob("*.py")) if place.is_dir() else [place]


@cache
def attacked(*, beyond: bool) -> frozenset[str]:
    """The bounds that an attack is at, or one beyond."""
    made = [one for each in routed() for one in attacks(each.code) if one.bound]
    return frozenset(one.bound for one in made if one.is_beyond is beyond and one.answer is not None)


@pytest.mark.slow
def test_every_bound_is_tried_at_it_and_one_beyond() -> None:
    tried = (attacked(beyond=False) & attacked(beyond=True)) | set(TRIED)
    assert declared() - tried - set(ELSEWHERE) == set()


@pytest.mark.slow
def test_no_bound_is_named_that_is_not_declared() -> None:
    named = attacked(beyond=False) | attacked(beyond=True) | set(TRIED) | set(ELSEWHERE)
    assert named - declared() == set()
    assert set(ELSEWHERE) & (attacked(beyond=True) | set(TRIED)) == set()


@pytest.mark.parametrize("text", ["MAX_X = 1", "_MOST_X: int = 1", "class A:\n    max_x: int = 1"])
def test_a_new_bound_is_found(text: str, tmp_path: Path) -> None:
    file = tmp_path / "new.py"
    file.write_text(text, "utf-8")
    assert len(list(constants(file))) == 1
