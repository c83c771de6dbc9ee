"""The way of a message into the store: the places of stages, and what a new stage can do there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from trio.testing import MockClock

from rocketpy.errors import BrokerError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.wire.codes import ResponseCode
from rocketpy_broker_sim.broker import opening
from rocketpy_broker_sim.broker.broker import Broker
from rocketpy_broker_sim.broker.putting.put_pipeline import Put, PutPipeline, Stage, StageOrder, step
from rocketpy_broker_sim.broker.runs.plain_runs import PlainRuns
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.put_result import IncomingMessage
from tests.broker_sim.broker.kit import bodies, broker_and_client, settings
from tests.broker_sim.broker.test_plain_runs import KEY, Taken, decode_answer, send, wire_to

SEALED = KEY + "SEAL\x01{}\x02"
"""Properties of a message that asks for a stage of the tests."""


class Diverting:
    """A stage that sends messages with a property of its own to another topic."""

    watches = frozenset({"SEAL"})

    def __init__(self, topic: str = "Elsewhere") -> None:
        self.topic = topic
        self.runs: list[int] = []

    def take(self, puts: Sequence[Put]) -> None:
        self.runs.append(len(puts))
        step(puts, self._take)

    def _take(self, put: Put) -> None:
        if put.message is None or put.properties is None or "SEAL" not in put.properties:
            return
        if put.properties["SEAL"] == "broken":
            raise BrokerError.for_code(ResponseCode.MESSAGE_ILLEGAL, "the seal is broken")
        put.properties["WAS"] = put.message.topic
        put.message.topic, put.message.queue_id = self.topic, 0


class Noting:
    """A stage that notes the order of places and what came to them."""

    watches = frozenset[str]()

    def __init__(self, name: str, seen: list[tuple[str, list[str]]]) -> None:
        self.name = name
        self.seen = seen

    def take(self, puts: Sequence[Put]) -> None:
        self.seen.append((self.name, [put.message.topic for put in puts if put.message is not None]))


def put(topic: str = "T", properties: dict[str, str] | None = None) -> Put:
    message = IncomingMessage(topic, 0, b"x", "", 0, 0, 0, bytes(8), bytes(8), 0)
    return Put(message, properties)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Taken:
    return Taken(monkeypatch)


# --- stages and places -----------------------------------------------------------------------------------


def test_stages_take_a_run_in_the_order_of_their_places() -> None:
    seen: list[tuple[str, list[str]]] = []
    pipeline = PutPipeline({place: Noting(place.name, seen) for place in reversed(StageOrder)})
    pipeline.take([put("A"), put("B")])
    assert seen == [(place.name, ["A", "B"]) for place in StageOrder]
    assert [place.name for place in StageOrder] == ["CHECKS", "HALF_MESSAGE", "TIMER", "DELAY_LEVEL", "STORE"]


def test_a_run_can_begin_behind_a_place() -> None:
    seen: list[tuple[str, list[str]]] = []
    PutPipeline({place: Noting(place.name, seen) for place in StageOrder}).take([put()], behind=StageOrder.TIMER)
    assert [name for name, _ in seen] == ["DELAY_LEVEL", "STORE"]


@pytest.mark.parametrize("place", [StageOrder.TIMER, StageOrder.HALF_MESSAGE])
def test_what_a_stage_refuses_goes_no_further_and_the_others_do(place: StageOrder) -> None:
    seen: list[tuple[str, list[str]]] = []
    pipeline = PutPipeline({place: Diverting(), StageOrder.STORE: Noting("store", seen)})
    plain, broken, moved = put("A"), put("B", {"SEAL": "broken"}), put("C", {"SEAL": "whole"})
    pipeline.take([plain, broken, moved])
    assert seen == [("store", ["A", "Elsewhere"])]
    assert broken.refusal == (ResponseCode.MESSAGE_ILLEGAL, "the seal is broken")
    assert not broken.is_under_way
    assert moved.properties == {"SEAL": "whole", "WAS": "C"}


def test_what_stages_watch_is_known_of_all_of_them() -> None:
    assert PutPipeline({StageOrder.TIMER: Diverting(), StageOrder.STORE: Noting("store", [])}).watched == {"SEAL"}


# --- in a broker -----------------------------------------------------------------------------------------


def with_stage(place: StageOrder, stage: Stage, patch: pytest.MonkeyPatch) -> None:
    """Brokers that are opened from now on have one stage more."""

    class WithStage(Broker):
        def _stages(self) -> dict[StageOrder, Stage]:
            return super()._stages() | {place: stage}

    patch.setattr(opening, "Broker", WithStage)


@pytest.mark.parametrize("place", [StageOrder.TIMER, StageOrder.HALF_MESSAGE])
async def test_a_new_stage_diverts_what_it_watches_and_keeps_its_run_off_the_plain_way(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, taken: Taken, place: StageOrder
) -> None:
    stage, network = Diverting(), MemoryNetwork()
    with_stage(place, stage, monkeypatch)
    async with broker_and_client(network) as (broker, client):
        wire = await wire_to(network, broker)
        await wire.begin()
        stage.runs.clear()
        await wire.ask(*[send(n, queue_id=0, body=b"plain") for n in range(4)])
        assert (taken.runs[-1], stage.runs) == (4, [])
        texts = [KEY.format(n) if n % 2 else SEALED.format(n, "whole") for n in range(6)]
        answers = await wire.ask(*[send(n, text, queue_id=0, body=b"%d" % n) for n, text in enumerate(texts)])
        assert (taken.runs[-1], stage.runs) == (0, [6])
        assert {decode_answer(header).code for header in answers.values()} == {ResponseCode.SUCCESS}
        assert bodies(await client.pull("T", 0, 5)) == [b"1", b"3", b"5"]
        assert [broker.store.reads.max_offset("Elsewhere", 0), broker.store.reads.max_offset("T", 0)] == [3, 8]


@pytest.mark.parametrize("place", [StageOrder.TIMER, StageOrder.HALF_MESSAGE])
async def test_what_a_new_stage_refuses_is_told_to_its_sender_alone(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, place: StageOrder
) -> None:
    network = MemoryNetwork()
    with_stage(place, Diverting(), monkeypatch)
    async with broker_and_client(network) as (broker, _):
        wire = await wire_to(network, broker)
        await wire.begin()
        seals = ["whole", "broken", "whole"]
        answers = await wire.ask(*[send(n, SEALED.format(n, seal), queue_id=0) for n, seal in enumerate(seals)])
        codes = [decode_answer(answers[n]).code for n in range(3)]
        assert codes == [ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SUCCESS]
        assert broker.store.reads.max_offset("Elsewhere", 0) == 2


def test_a_plain_run_knows_what_every_stage_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    with_stage(StageOrder.TIMER, Diverting(), monkeypatch)
    views = opening.Broker(settings(), MemoryStorage())._views
    assert b"SEAL\x01" in PlainRuns(views.send)._watched
