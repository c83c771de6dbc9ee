"""One attack: send it, read what the server says of itself, and judge that.

The bounds are those that the project promises; docs/reference/hostile-peers.md has them in words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Self

import attrs

from tests.hostile.frames import MIB, opaque_of
from tests.hostile.measured import Measured
from tests.hostile.peer import Answer, Closed, Peer, wait_until
from tests.pace import slowness, slowness_of_collections

TURN = 0.020
"""Seconds of processor time that a turn may take, on an ordinary machine (see `pace`)."""
CALL = 0.100
"""The same where one call into C goes over a body at its limit; an attack says which call that is."""
AT_LIMIT = 15 * MIB
"""Bytes of a body, as it came or inflated, from which on it is said to be at its limit."""
REPORTED, WAIT = 0.2, 1.0
"""Seconds that the innocent pair shall wait at most, and those above which the attack fails."""
SLACK = 16 * MIB
"""Bytes by which memory may be more than before."""
TIMES = 4
"""Beside that, as often the size of the request while it is served."""
TRIES = 3
AGAIN = 2
"""How many times more, at most, a crowd is measured: the host of a virtual machine may take a turn away twice."""
BETWEEN = "between attacks"
"""The name of a reading of what attacks left for later."""
AFTERWARDS = "afterwards"
"""The name of the reading that shows what a client has lost through attacks."""
HELD, CLOSED = -1, -2
"""Instead of the code of an answer: there is none, and the connection is open; there is none, and it is closed."""
_SETTLES_WITHIN, _SETTLES_FROM_CROWDS_WITHIN = 3.0, 15.0
"""How long memory may take to be given back. After a crowd the heap is in many pieces, and is checked less often."""
_RESTS = 1.2
"""Seconds without a change of memory, and with next to no work, after which a server keeps what it has.

Longer than one: each second it gives back the gaps of its heap, unless these are very many.
"""
_STILL = 256 * 1024
"""Bytes by which the memory of a server changes that serves nobody but the pair."""
_IDLE = 0.1
"""Seconds of processor time that it uses meanwhile, at most."""
_ANSWERS_WITHIN = 10.0


@attrs.frozen(kw_only=True)
class Attack:
    """What is sent on one connection.

    Attributes:
        name: What is large about it.
        frames: Makes the frames, new ones (and new names in them) each time.
        call: The call into C over a body at its limit, when there is one.
        inflates: Bytes that a body becomes, when it is compressed or its text is wide.
        answer: The code that the last frame has to be answered with, where that is told; `HELD` and `CLOSED` are none.
        at_once: Requests that each may take their share of memory, because they are under way together.
        bound: The bound that it is at: the module or the class, and the name.
        is_beyond: Whether it is one beyond.
    """

    name: str
    frames: Callable[[], Iterable[bytes]]
    call: str = ""
    inflates: int = 0
    answer: int | None = None
    at_once: int = 1
    bound: str = ""
    is_beyond: bool = False


class Reading(NamedTuple):
    """What an attack did."""

    name: str
    size: int
    """Bytes of the largest frame, or of all frames that were sent without waiting."""
    turn: float
    collecting: float
    """The most seconds of a turn that went into full collections of garbage: one call into C, over all objects."""
    task: str
    wait: float
    grown: int
    """Bytes of memory that it took while it was served."""
    left: int
    """Bytes that were still there afterwards."""
    answers: tuple[int, ...]
    closed: bool
    faults: tuple[str, ...]
    is_end: bool = False
    """Whether the server did not survive it."""
    is_little_over: bool = False
    """Whether all that is wrong is a turn, or a full collection, that took less than twice what it may."""

    def __str__(self) -> str:
        words = f"{self.name}: {self.size / MIB:.2f} MiB, turn {self.turn * 1e3:.1f} ms"
        words += f" ({self.collecting * 1e3:.1f} garbage, {self.task.rpartition('.')[2]})"
        words += f", wait {self.wait * 1e3:.0f} ms, memory +{self.grown / MIB:.1f}/{self.left / MIB:.1f} MiB"
        return f"{words}, {'closed' if self.closed else 'open'}, answers {self.answers[:4]}"


def attack(
    served: Measured,
    attack: Attack,
    small: Callable[[], bytes],
    expected: int,
    *,
    tries: int = TRIES,
    afresh: Callable[[], None] = lambda: None,
) -> Reading:
    """Attack, and again when nothing is wrong but that the pair waited: the machine is noisy, and that is wall time.

    Whatever else is wrong counts at once, for what a server keeps or does for the first time only is not seen a second
    time. A turn that is less than twice too long may be the machine, too: it is measured again on a server that has
    just been started, where all is a first time again.

    Args:
        served: who is attacked.
        attack: what is sent.
        small: the same request in small, which has to work afterwards.
        expected: the code of its answer.
        tries: how often at most.
        afresh: starts the server again.
    """
    readings = [_attack(served, attack, small, expected)]
    if tries > 1 and readings[0].is_little_over:
        afresh()
        readings = [_attack(served, attack, small, expected)]
    while len(readings) < tries and not readings[-1].faults and readings[-1].wait > REPORTED:
        readings.append(_attack(served, attack, small, expected))
    last = readings[-1]
    if not last.faults:
        last = worst(readings)._replace(wait=min(reading.wait for reading in readings))
    return last._replace(faults=(*last.faults, *judge_wait(last)))


def _attack(served: Measured, attack: Attack, small: Callable[[], bytes], expected: int) -> Reading:
    before = served.memory().now
    frames = list(attack.frames())
    size = max(map(len, frames), default=0)
    served.begin()
    answers: list[Answer] = []
    after: Answer | None = None
    try:
        with Peer(served.address, timeout=_ANSWERS_WITHIN) as peer:
            last = small()
            answers = peer.attack(frames, last)
            closed = not peer.is_open
            if not closed:
                after = answers.pop()
                if attack.answer is not None and attack.answer >= 0:
                    answers += _late_answer(peer, opaque_of(frames[-1]), answers)
        if after is None or after.code != expected:
            # What a connection may do can be used up; the next one begins afresh.
            with Peer(served.address, timeout=_ANSWERS_WITHIN) as peer:
                after = peer.ask(small())
    except (OSError, Closed):
        closed = True
    # An answer leaves within the turn that made it: that turn has ended when somebody else is answered.
    if not served.answers():
        return _dead(served, attack, size)
    turn, collecting, task = (
        _ordinary(served.meter["longest"]),
        _ordinary_collection(served.meter["collecting"]),
        served.meter.line,
    )
    wait, grown = served.waited(), max(0, served.memory().peak - before)
    served.rest()
    wait_until(lambda: served.memory().now <= before + SLACK, _SETTLES_WITHIN)
    left = max(0, served.memory().now - before)
    answers = [answer for answer in answers if not answer.is_request]
    codes = tuple(answer.code for answer in answers)
    reading = Reading(attack.name, size, turn, collecting, task, wait, grown, left, codes, closed, ())
    faults = list(judge(reading, call=attack.call, at_once=attack.at_once))
    count = len(faults)
    if attack.call and max(size, attack.inflates) < AT_LIMIT:
        faults.append(f"no body at its limit, and yet {attack.call!r} may take {CALL * 1e3:.0f} ms")
    if attack.answer is not None and attack.answer != (code := _code_of_last(frames, answers, closed=closed)):
        faults.append(f"answered {code}, expected {attack.answer}")
    if served.failures():
        faults.append(f"the pair: {served.pair.line}")
    if after is None or after.code != expected:
        faults.append(f"afterwards: {after and (after.code, after.remark)}, expected {expected}")
    little = len(faults) == count and is_little_over(reading, faults, call=attack.call)
    return reading._replace(faults=tuple(faults), is_little_over=little)


def _ordinary(nanoseconds: int) -> float:
    """Seconds of an ordinary machine. Little is as good as it is: this one is timed where something seems too slow."""
    seconds = nanoseconds / 1e9
    return seconds if seconds <= TURN else seconds / slowness()


def _ordinary_collection(nanoseconds: int) -> float:
    """The same of a full collection of garbage."""
    seconds = nanoseconds / 1e9
    return seconds if seconds <= CALL else seconds / slowness_of_collections()


def _late_answer(peer: Peer, opaque: int, answers: Iterable[Answer]) -> list[Answer]:
    """The answer to a frame, when others have overtaken it: some wait for the disk, or for the name servers."""
    if any(answer.is_to(opaque) for answer in answers):
        return []
    try:
        return [peer.wait_for(opaque)]
    except TimeoutError:
        return []


def _code_of_last(frames: Sequence[bytes], answers: Iterable[Answer], *, closed: bool) -> int:
    """The code of the answer to the last frame, or what there is instead."""
    opaque = opaque_of(frames[-1])
    return next((answer.code for answer in answers if answer.opaque == opaque), CLOSED if closed else HELD)


def _dead(served: Measured, attack: Attack, size: int) -> Reading:
    how = f"ended with {served.process.returncode}" if not served.lives else "does not answer any more"
    fault = f"the server {how}\n{served.said()}"
    return Reading(attack.name, size, 0, 0, "", 0, 0, 0, (), True, (fault,), is_end=True)


def judge(reading: Reading, *, call: str = "", at_once: int = 1) -> Iterable[str]:
    """What is wrong with a reading, in words; all but the wait of the pair."""
    bound = bound_of(call)
    if reading.turn > bound:
        yield f"a turn of {reading.turn * 1e3:.1f} ms, {bound * 1e3:.0f} are allowed, in {reading.task}"
    if reading.collecting > CALL:
        yield f"a full collection of {reading.collecting * 1e3:.1f} ms, {CALL * 1e3:.0f} are allowed"
    most = TIMES * reading.size + at_once * SLACK
    if reading.grown > most:
        yield f"memory grew by {reading.grown / MIB:.1f} MiB, {most / MIB:.1f} are allowed"
    if reading.left > SLACK:
        yield f"{reading.left / MIB:.1f} MiB of memory stayed, {SLACK / MIB:.0f} are allowed"


def is_little_over(reading: Reading, faults: Sequence[str], *, call: str = "") -> bool:
    """Whether these faults are of processor time alone, and it took less than twice what it may."""
    bound = bound_of(call)
    return is_time_alone(reading, faults, call=call) and reading.turn <= 2 * bound and reading.collecting <= 2 * CALL


def is_time_alone(reading: Reading, faults: Sequence[str], *, call: str = "") -> bool:
    """Whether these faults are of processor time alone, however much it was."""
    return 0 < len(faults) == (reading.turn > bound_of(call)) + (reading.collecting > CALL)


def judge_wait(reading: Reading) -> Iterable[str]:
    """The same of the wait, which the machine may cause as well as the server."""
    if reading.wait > WAIT:
        yield f"the pair waited {reading.wait * 1e3:.0f} ms"


def bound_of(call: str) -> float:
    """Seconds that a turn may take, with such a call into C or without one."""
    return CALL if call else TURN


def later(served: Measured) -> Reading:
    """What was left for later: the longest turn between attacks, by timers and by what they had put off.

    It cannot be measured again, and so what the machine may do to a turn is allowed.
    """
    turn = _ordinary(int(served.rested() * 1e9))
    fault = f"a turn of {turn * 1e3:.1f} ms, {2 * TURN * 1e3:.0f} are allowed there"
    return Reading(BETWEEN, 0, turn, 0.0, "", 0.0, 0, 0, (), False, (fault,) if turn > 2 * TURN else ())


def kept(lost: Iterable[str]) -> Reading:
    """A reading of what a client has lost although it should have kept it."""
    return Reading(AFTERWARDS, 0, 0.0, 0.0, "", 0.0, 0, 0, (), False, tuple(lost))


class Watch:
    """Readings of an attack that is more than one request on one connection: a flood, a crowd, a silent peer."""

    def __init__(self, served: Measured, name: str, *, size: int = 0) -> None:
        self.served, self.name, self.size = served, name, size

    def __enter__(self) -> Self:
        self.before = self.served.memory().now
        self.began = time.monotonic()
        self.served.begin()
        return self

    def __exit__(self, *exc: object) -> None:
        self.seconds = time.monotonic() - self.began

    def reading(self, *, keeps: int = SLACK) -> Reading:
        """What has been seen since the block began; `keeps` is what may stay of memory."""
        served = self.served
        if not served.answers():
            return _dead(served, Attack(name=self.name, frames=list), self.size)
        wait, grown = served.waited(), max(0, served.memory().peak - self.before)
        meter = served.meter
        turn, collecting = _ordinary(meter["longest"]), _ordinary_collection(meter["collecting"])
        task = meter.line
        wait_until(Settling(served, self.before, keeps), _SETTLES_FROM_CROWDS_WITHIN)
        left = max(0, served.memory().now - self.before)
        reading = Reading(self.name, self.size, turn, collecting, task, wait, grown, left, (), False, ())
        faults = [*judge(reading), *judge_wait(reading)]
        if served.failures():
            faults.append(f"the pair: {served.pair.line}")
        return reading._replace(faults=tuple(faults), is_little_over=is_little_over(reading, faults))


class Settling:
    """Whether a server has given back what an attack took: all but `SLACK`, or `keeps` and it gives back no more."""

    def __init__(self, served: Measured, before: int, keeps: int) -> None:
        self._served, self._before, self._keeps = served, before, keeps
        self._note(served.memory().now)

    def _note(self, now: int) -> None:
        self._now, self._used, self._since = now, self._served.processor_seconds(), time.monotonic()

    def __call__(self) -> bool:
        now = self._served.memory().now
        if now <= self._before + SLACK:
            return True
        is_still = abs(now - self._now) <= _STILL and self._served.processor_seconds() - self._used <= _IDLE
        if now > self._before + self._keeps or not is_still:
            self._note(now)
        return time.monotonic() - self._since >= _RESTS


class LittleOverError(AssertionError):
    """All that is wrong may be the machine's or the C library's: to be measured again on a new server."""


class FarOverError(AssertionError):
    """A turn, or a full collection, took more than twice what it may.

    It is measured twice more on new servers, and has to be within its bound both times: a server does the same again,
    but the host of a virtual machine takes a turn away once in many thousands.
    """


def measure_again(run: Callable[[], object], restart: Callable[[], object], first: Exception) -> None:
    """Run again, on new servers, what took too long.

    It has to be right once after a `LittleOverError`, and each time after a `FarOverError`.
    """
    for left in reversed(range(AGAIN)):
        restart()
        try:
            run()
        except LittleOverError:
            if isinstance(first, FarOverError) or not left:
                raise
        else:
            if isinstance(first, LittleOverError):
                return


def worst(readings: Sequence[Reading]) -> Reading:
    """One reading of the worst of each."""
    longest = max(readings, key=lambda reading: reading.turn)
    return longest._replace(
        collecting=max(reading.collecting for reading in readings),
        wait=max(reading.wait for reading in readings),
        grown=max(reading.grown for reading in readings),
        left=max(reading.left for reading in readings),
    )
