"""The harness itself: it finds what is planted at the first try, and holds no server to what the machine does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Self

import pytest

from tests.hostile import measure
from tests.hostile.frames import MIB, opaque_of, request
from tests.hostile.measure import Attack, FarOverError, LittleOverError, Reading, attack
from tests.hostile.measured import Memory
from tests.hostile.peer import Answer, Closed, Peer

WAITED, TURNED, LEFT, GROWN, FAILED = "wait", "turn", "left", "grown", "failed"
GOOD = {WAITED: 0.0, TURNED: 0.001, LEFT: 0, GROWN: 0, FAILED: 0}


@pytest.fixture(autouse=True)
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary machine."""
    monkeypatch.setattr(measure, "slowness", lambda: 1.0)
    monkeypatch.setattr(measure, "slowness_of_collections", lambda: 1.0)


class FakeServed:
    """A server that does what it is told in each attack: seconds that somebody waits, bytes that it keeps, and so on.

    Attributes:
        plan: What goes wrong, for each attack in turn; nothing does after its end.
        attacked: How often it has been attacked.
        restarts: How often it has been started again.
    """

    address = ""

    def __init__(self, *plan: dict[str, float]) -> None:
        self.plan, self.attacked, self.restarts = plan, 0, 0
        self.kept = 0
        self.pair = SimpleNamespace(line="pulls: refused")

    @property
    def now(self) -> dict[str, float]:
        return GOOD | (self.plan[self.attacked - 1] if self.attacked <= len(self.plan) else {})

    def begin(self) -> None:
        self.attacked += 1
        self.kept += int(self.now[LEFT])

    @property
    def meter(self) -> FakeMeter:
        return FakeMeter(longest=int(self.now[TURNED] * 1e9), collecting=0)

    def memory(self) -> Memory:
        return Memory(self.kept, self.kept + (int(self.now[GROWN]) if self.attacked else 0))

    def rest(self) -> None:
        pass

    def waited(self) -> float:
        return self.now[WAITED]

    def failures(self) -> int:
        return int(self.now[FAILED])

    def answers(self) -> bool:
        return True

    def restart(self) -> None:
        self.restarts += 1
        self.kept = 0


class FakeMeter(dict[str, int]):
    line = "planted"


class FakePeer:
    """Answers everything with 0."""

    def __init__(self, *_: object, **_more: object) -> None:
        self.is_open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_open = False

    def attack(self, frames: list[bytes], last: bytes) -> list[Answer]:
        return [Answer(0, opaque_of(frame), "", {}, b"", False) for frame in (*frames, last)]


@pytest.fixture
def try_it(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Reading]:
    monkeypatch.setattr(measure, "Peer", FakePeer)
    monkeypatch.setattr(measure, "_SETTLES_WITHIN", 0)

    def run(served: FakeServed, **more: object) -> Reading:
        one = Attack(name="planted", frames=lambda: [request(1)], **more)  # type: ignore[arg-type]
        return attack(served, one, lambda: request(1), 0, afresh=served.restart)  # type: ignore[arg-type]

    return run


@pytest.mark.parametrize(
    ("what", "amount", "said"),
    [
        (LEFT, 80 * MIB, "80.0 MiB of memory stayed, 16 are allowed"),
        (GROWN, 80 * MIB, "memory grew by 80.0 MiB"),
        (TURNED, 0.350, "a turn of 350.0 ms"),
        (FAILED, 1, "the pair: pulls: refused"),
    ],
)
def test_what_is_wrong_the_first_time_only_is_reported(
    try_it: Callable[..., Reading], what: str, amount: float, said: str
) -> None:
    served = FakeServed({what: amount})
    assert any(fault.startswith(said) for fault in try_it(served).faults)
    assert served.attacked == 1


def test_what_is_wrong_beside_a_wait_is_reported(try_it: Callable[..., Reading]) -> None:
    served = FakeServed({LEFT: 80 * MIB, WAITED: 2.0})
    assert try_it(served).faults[-2:] == ("80.0 MiB of memory stayed, 16 are allowed", "the pair waited 2000 ms")
    assert served.attacked == 1


def test_what_goes_wrong_when_a_wait_is_looked_at_again_is_reported(try_it: Callable[..., Reading]) -> None:
    served = FakeServed({WAITED: 2.0}, {LEFT: 80 * MIB})
    assert try_it(served).faults[1:] == ("80.0 MiB of memory stayed, 16 are allowed",)
    assert served.attacked == 2


def test_a_wait_is_looked_at_again_and_the_best_counts(try_it: Callable[..., Reading]) -> None:
    served = FakeServed({WAITED: 2.0, TURNED: 0.019}, {WAITED: 0.5}, {WAITED: 0.3})
    reading = try_it(served)
    assert (reading.faults, reading.wait, reading.turn) == ((), 0.3, 0.019)
    assert (served.attacked, served.restarts) == (3, 0)


def test_a_wait_that_stays_is_reported(try_it: Callable[..., Reading]) -> None:
    served = FakeServed(*[{WAITED: 2.0}] * 3)
    assert try_it(served).faults == ("the pair waited 2000 ms",)


def test_a_turn_on_a_slow_machine_is_told_in_seconds_of_an_ordinary_one(
    try_it: Callable[..., Reading], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "slowness", lambda: 2.0)
    assert try_it(FakeServed({TURNED: 0.038})).faults == ()
    assert try_it(FakeServed({TURNED: 0.044}, {TURNED: 0.044})).faults[0].startswith("a turn of 22.0 ms")


def test_a_turn_a_little_too_long_is_measured_again_on_a_new_server(try_it: Callable[..., Reading]) -> None:
    served = FakeServed({TURNED: 0.030})
    assert try_it(served).faults == ()
    assert (served.attacked, served.restarts) == (2, 1)
    served = FakeServed({TURNED: 0.030}, {TURNED: 0.022})
    assert try_it(served).faults[0].startswith("a turn of 22.0 ms")
    assert served.restarts == 1


@pytest.mark.parametrize(
    ("turn", "collecting", "more", "expected"),
    [
        (0.001, 0.001, [], False),
        (0.030, 0.001, [], True),
        (0.001, 0.150, [], True),
        (0.030, 0.150, [], True),
        (0.041, 0.001, [], False),
        (0.030, 0.201, [], False),
        (0.030, 0.001, ["the pair: refused"], False),
        (0.001, 0.001, ["the pair: refused"], False),
    ],
)
def test_a_little_over_is_processor_time_alone(turn: float, collecting: float, more: list[str], expected: bool) -> None:
    reading = Reading("planted", 0, turn, collecting, "", 0, 0, 0, (), False, ())
    assert measure.is_little_over(reading, [*measure.judge(reading), *more]) is expected


def test_a_little_too_long_and_something_else_is_not_measured_again(try_it: Callable[..., Reading]) -> None:
    served = FakeServed({TURNED: 0.030, FAILED: 1})
    assert len(try_it(served).faults) == 2
    assert served.restarts == 0


@pytest.mark.parametrize(
    ("first", "then", "runs", "raised"),
    [
        (LittleOverError, [None], 1, None),
        (LittleOverError, [LittleOverError, None], 2, None),
        (LittleOverError, [LittleOverError, LittleOverError], 2, LittleOverError),
        (LittleOverError, [FarOverError], 1, FarOverError),
        (FarOverError, [None, None], 2, None),
        (FarOverError, [None, LittleOverError], 2, LittleOverError),
        (FarOverError, [LittleOverError], 1, LittleOverError),
        (FarOverError, [FarOverError], 1, FarOverError),
        (FarOverError, [None, AssertionError], 2, AssertionError),
    ],
)
def test_what_took_too_long_is_measured_again_on_new_servers(
    first: type[Exception], then: list[type[Exception] | None], runs: int, raised: type[Exception] | None
) -> None:
    served, count = FakeServed(), 0

    def run() -> None:
        nonlocal count
        count += 1
        assert served.restarts == count
        if outcome := then[count - 1]:
            raise outcome

    with contextlib.nullcontext() if raised is None else pytest.raises(raised):
        measure.measure_again(run, served.restart, first())
    assert count == runs


@pytest.mark.parametrize(("turn", "more", "expected"), [(0.350, [], True), (0.350, ["refused"], False), (0, [], False)])
def test_far_too_long_is_processor_time_alone(turn: float, more: list[str], expected: bool) -> None:
    reading = Reading("planted", 0, turn, 0.0, "", 0, 0, 0, (), False, ())
    assert measure.is_time_alone(reading, [*measure.judge(reading), *more]) is expected


def test_a_call_into_c_needs_a_body_at_its_limit(try_it: Callable[..., Reading]) -> None:
    assert "no body at its limit" in try_it(FakeServed(), call="copy").faults[0]
    assert try_it(FakeServed({TURNED: 0.090}), call="copy", inflates=32 * MIB).faults == ()


def test_an_answer_that_is_told_is_compared(try_it: Callable[..., Reading]) -> None:
    assert try_it(FakeServed(), answer=0).faults == ()
    assert try_it(FakeServed(), answer=29).faults == ("answered 0, expected 29",)


@pytest.mark.parametrize(("late", "faults"), [(0, ()), (29, ("answered 29, expected 0",))])
def test_an_answer_that_others_overtake_is_waited_for(
    try_it: Callable[..., Reading], monkeypatch: pytest.MonkeyPatch, late: int, faults: tuple[str, ...]
) -> None:
    class Overtaken(FakePeer):
        def attack(self, frames: list[bytes], last: bytes) -> list[Answer]:
            return super().attack([], last)

        def wait_for(self, opaque: int) -> Answer:
            assert self.is_open
            return Answer(late, opaque, "", {}, b"", False)

    monkeypatch.setattr(measure, "Peer", Overtaken)
    assert try_it(FakeServed(), answer=0).faults == faults


def test_an_answer_that_never_comes_is_reported(
    try_it: Callable[..., Reading], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(FakePeer):
        def attack(self, frames: list[bytes], last: bytes) -> list[Answer]:
            return super().attack([], last)

        def wait_for(self, opaque: int) -> Answer:
            raise TimeoutError

    monkeypatch.setattr(measure, "Peer", Silent)
    assert try_it(FakeServed(), answer=0).faults == ("answered -1, expected 0",)


def test_requests_of_the_server_are_no_answers() -> None:
    """A notice may have the number of the last request: servers count their own."""
    last = request(1)
    sent = [Answer(40, opaque_of(last), "", {}, b"", True), Answer(0, opaque_of(last), "", {}, b"", False)]
    peer = ScriptedPeer(sent)
    assert peer.attack([], last) == sent
    assert peer.ask(last) == sent[1]


class ScriptedPeer(Peer):
    """Reads what stands in a list, again and again."""

    def __init__(self, answers: list[Answer]) -> None:
        self._script = answers
        self._left: Iterator[Answer] = iter([])
        self.is_open = True

    def send(self, data: bytes) -> None:
        self._left = iter(self._script)

    def read(self) -> Answer:
        try:
            return next(self._left)
        except StopIteration:
            raise Closed from None


class Resting:
    """A server whose memory goes through these numbers of MiB, one a look, and which computes as long as it says."""

    def __init__(self, *memory: int, working: float = 0.0) -> None:
        self.plan, self.working, self.looks = memory, working, 0

    def memory(self) -> Memory:
        self.looks += 1
        now = self.plan[min(self.looks, len(self.plan)) - 1] * MIB
        return Memory(now, now)

    def processor_seconds(self) -> float:
        return self.working * self.looks


@pytest.mark.parametrize(
    ("served", "keeps", "looks"),
    [
        (Resting(90, 80, 16), 64, 3),  # as little as it may always keep
        (Resting(90, 80, 60, 40, 30), 64, 5 + 4),  # no more than it may keep, and nothing more is given back
        (Resting(90, 80), 64, None),  # more than it may keep, which it may give back yet
        (Resting(60, working=0.2), 64, None),  # it has work to do yet
    ],
)
def test_a_server_is_at_rest_when_it_has_no_work_and_gives_nothing_more_back(
    monkeypatch: pytest.MonkeyPatch, served: Resting, keeps: int, looks: int | None
) -> None:
    monkeypatch.setattr(measure, "_RESTS", 4)
    monkeypatch.setattr(measure, "time", SimpleNamespace(monotonic=lambda: served.looks))
    settled = measure.Settling(served, 0, keeps * MIB)  # type: ignore[arg-type]
    while not settled() and served.looks < 100:
        pass
    assert served.looks == (looks or 100)
