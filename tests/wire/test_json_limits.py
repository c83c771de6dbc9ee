"""JSON at the limits of what a server takes: no step holds the loop, and memory stays within four times the request."""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING

import attrs
import pytest

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.bodies.heartbeat import HeartbeatData
from rocketpy.wire.json_dialect import _ESCAPES_A_STEP, _MAX_ODD_ESCAPES
from rocketpy.wire.limits import REQUEST_LIMITS, SMALL_REQUEST_LIMITS, WireLimits
from tests.pace import slowness

if TYPE_CHECKING:
    from collections.abc import Callable

ONE_CALL_INTO_C = 0.100
OUR_OWN_STEP = 0.005
AT_ONCE = 0.020
TRIES = 10
"""Beside others even processor time is more than it takes alone; what is too slow by itself is so each time."""
BEYOND_THE_REQUEST = 16 * 1024 * 1024

HEAD = '{"clientID":"c",'
GROUPS = HEAD + '"consumerDataSet":['


def listed(items: str, count: int) -> str:
    """A body with a member that nobody knows, of so many of an item."""
    return f'{HEAD}"x":[{(items + ",") * (count - 1)}1]}}'


def consumers(count: int, inside: str = "") -> str:
    """A body of so many groups."""
    return GROUPS + ",".join(f'{{"groupName":"{number}"{inside}}}' for number in range(count)) + "]}"


def subscriptions(count: int) -> str:
    """A body of one group with so many subscriptions."""
    inside = ",".join(f'{{"topic":"{number}"}}' for number in range(count))
    return f'{GROUPS}{{"groupName":"g","subscriptionDataSet":[{inside}]}}]}}'


def tags(name: str, count: int) -> str:
    """A body of one subscription with so many tags."""
    inside = ",".join(f'"{number}"' for number in range(count))
    return f'{GROUPS}{{"groupName":"g","subscriptionDataSet":[{{"topic":"t","{name}":[{inside}]}}]}}]}}'


# By the bytes and the members that there may be.
ATTACKS: dict[str, Callable[[int, int], str]] = {
    "blanks within": lambda size, _: HEAD + " " * size + '"x":1}',
    "blanks behind": lambda size, _: '{"clientID":"c"}' + " " * size,
    "blanks and an error": lambda size, _: '{"clientID":"c"}' + " " * size + "x",
    "blanks that only Java takes": lambda size, _: HEAD + "\x0b " * (size // 2) + '"x":1}',
    "commas": lambda size, _: HEAD + "," * size + "}",
    "comments": lambda size, _: HEAD + "/**/" * (size // 4) + "}",
    "lines of comment": lambda size, _: HEAD + "//\n" * (size // 3) + "}",
    "comments without an end": lambda size, _: HEAD + "/*" * (size // 2) + "}",
    "text": lambda size, _: HEAD + '"x":"' + "x" * size + '"}',
    "text in single quotes": lambda size, _: HEAD + "'x':'" + "x" * size + "'}",
    "text without an end": lambda size, _: HEAD + '"x":"' + "x" * size,
    "escapes": lambda size, _: HEAD + '"x":"' + r"x\n" * (size // 3) + '"}',
    "escapes that only Java takes": lambda size, _: HEAD + '"x":"' + r"\x41" * (size // 4) + '"}',
    "escapes in single quotes": lambda size, _: HEAD + "'x':'" + r"\'" * (size // 2) + "'}",
    "as many of them as are taken": lambda _, __: HEAD + "'x':'" + r"\'" * _MAX_ODD_ESCAPES + "'}",
    "as many of them by number": lambda _, __: HEAD + "'x':'" + r"\x41" * _MAX_ODD_ESCAPES + "'}",
    "as many of them in texts": lambda _, __: listed("'" + r"\x41" * 900 + "'", _MAX_ODD_ESCAPES // 900),
    "backslashes": lambda size, _: HEAD + '"x":"' + "\\" * size,
    "surrogate pairs": lambda size, _: HEAD + '"x":"' + r"\ud83d\ude00" * (size // 13) + '"}',
    "half a pair": lambda size, _: HEAD + '"x":"' + r"\ud83d" * (size // 7) + '"}',
    "wide text": lambda size, _: HEAD + '"x":"' + "\u4e2d" * (size // 6) + '"}',
    "text that one character widens": lambda size, _: HEAD + '"x":"\U0001f600' + "x" * (size // 6 - 100) + '"}',
    "empty texts": lambda size, _: HEAD + '"x":[' + '""' * (size // 2) + "]}",
    "numbers of 256 digits": lambda size, members: listed("9" * 256, min(members - 9, size // 257 - 9)),
    "fractions": lambda _, members: listed("1.5", members - 9),
    "numbers": lambda _, members: listed("123456789012", members - 9),
    "objects": lambda _, members: listed('{"a":1}', members // 2 - 9),
    "objects in single quotes": lambda _, members: listed("{'a':1}", members // 2 - 9),
    "arrays": lambda _, members: listed("[]", members // 2 - 9),
    "nested arrays": lambda _, members: listed("[" * 60 + "]" * 60, members // 61 - 9),
    "names": lambda _, members: "{" + ",".join(f'"k{number}":1' for number in range(members - 9)) + ',"clientID":"c"}',
    "bare names": lambda _, members: "{" + ",".join(f"k{number}:1" for number in range(members - 9)) + "}",
    "groups": lambda _, members: consumers(members // 2 - 9),
    "groups in another spelling": lambda _, members: consumers(members // 2 - 9).replace("groupName", "GROUPNAME"),
    "subscriptions": lambda _, members: subscriptions(members // 2 - 9),
    "tags": lambda _, members: tags("tagsSet", members - 19),
    "codes": lambda _, members: tags("codeSet", members - 19),
    "references": lambda _, members: listed('{"$ref":"$.clientID"}', members // 4),
    "long references": lambda size, _: listed('{"$ref":"$' + ".y" * 200 + '"}', size // 420),
}


def body_of(attack: str, limits: WireLimits) -> bytes:
    return ATTACKS[attack](limits.max_json_body - 200, limits.max_body_members).encode()


def steps_of(data: bytes, limits: WireLimits) -> list[float]:
    """The processor time of each step, the longest first, in seconds of an ordinary machine."""
    steps = HeartbeatData.decode_steps(data, limits=limits)
    found = []
    at_end = False
    while not at_end:
        begin = time.thread_time()
        try:
            next(steps)
        except (StopIteration, RemoteProtocolError):
            at_end = True
        found.append(time.thread_time() - begin)
    slower = slowness()
    return sorted((each / slower for each in found), reverse=True)


@pytest.mark.alone("measures the processor time of single steps")
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_step_over_a_body_at_its_limits_holds_the_loop(attack: str) -> None:
    """Four steps may be calls into C over the whole text; all the others are ours, and short."""
    data = body_of(attack, REQUEST_LIMITS)
    assert any(
        run[0] < ONE_CALL_INTO_C and sum(run[4:5]) < OUR_OWN_STEP
        for run in (steps_of(data, REQUEST_LIMITS) for _ in range(TRIES))
    )


@pytest.mark.parametrize("attack", ["as many of them by number", "as many of them in texts"])
def test_escapes_are_read_a_thousand_at_a_time(attack: str) -> None:
    data = body_of(attack, REQUEST_LIMITS)
    assert len(steps_of(data, REQUEST_LIMITS)) > data.count(b"\\") / _ESCAPES_A_STEP / 2


@pytest.mark.alone("measures the processor time of single steps")
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_small_body_is_read_at_once(attack: str) -> None:
    data = body_of(attack, SMALL_REQUEST_LIMITS)
    assert any(sum(steps_of(data, SMALL_REQUEST_LIMITS)) < AT_ONCE for _ in range(TRIES))


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_memory_stays_within_four_times_the_request(attack: str) -> None:
    """Three times, as the request itself is there already. Watching memory is slow, so a quarter of all limits."""
    quarter = attrs.evolve(
        REQUEST_LIMITS,
        max_json_body=REQUEST_LIMITS.max_json_body // 4,
        max_body_members=REQUEST_LIMITS.max_body_members // 4,
    )
    check_memory(attack, quarter, BEYOND_THE_REQUEST // 4)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["subscriptions", "text that one character widens", "wide text"])
def test_memory_stays_within_four_times_the_largest_request(attack: str) -> None:
    """Those that come closest, at the limits themselves."""
    check_memory(attack, REQUEST_LIMITS, BEYOND_THE_REQUEST)


def check_memory(attack: str, limits: WireLimits, beyond: int) -> None:
    data = body_of(attack, limits)
    tracemalloc.start()
    try:
        steps_of(data, limits)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 3 * len(data) + beyond


@pytest.mark.parametrize("character", ["x", "\xe9", "\u4e2d", "\U0001f600"])
def test_characters_count_by_what_they_take_in_memory(character: str) -> None:
    body = '{"clientID":"' + character + "x" * 1000 + '"}'
    counted = WireLimits.size_of_json(body.encode())
    assert counted >= len(body) * {"x": 1, "\xe9": 1, "\u4e2d": 2, "\U0001f600": 4}[character]
    HeartbeatData.decode(body.encode(), limits=WireLimits(max_json_body=counted))
    with pytest.raises(RemoteProtocolError, match="limit"):
        HeartbeatData.decode(body.encode(), limits=WireLimits(max_json_body=counted - 1))
