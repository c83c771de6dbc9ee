"""Requests that are refused are let go of at once: what an error holds by its traceback does not hold the error."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest
from trio.testing import MockClock

from rocketpy.wire.batch import BatchItem, encode_batch_items
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy_broker_sim.broker.putting.batch_items import FEW_ITEMS, MOST_ITEMS
from rocketpy_broker_sim.broker.putting.put_pipeline import Put
from rocketpy_broker_sim.broker.putting.store_stage import StoreStage
from tests.broker_sim.broker.kit import broker_and_client, send_fields


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def kept() -> list[Put]:
    """The messages on their way that are still in memory."""
    return [each for each in gc.get_objects() if type(each) is Put]


def items(count: int, body: bytes = b"x") -> bytes:
    return encode_batch_items([BatchItem(0, body, b"")] * count)


@pytest.mark.slow
@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(
    "body",
    [bytes(1 << 20), b"\xff" * 10, items(3, b""), items(FEW_ITEMS + 1, b""), items(MOST_ITEMS + 1), b""],
    ids=["no batch", "a short one", "few without a body", "many without a body", "too many", "nothing"],
)
async def test_a_batch_that_is_refused_is_not_kept(autojump_clock: MockClock, body: bytes) -> None:
    async with broker_and_client() as (_, client):
        await client.send()
        for _ in range(3):
            answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("T", batch=True), body)
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert kept() == []


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.CONSUMER_SEND_MSG_BACK])
async def test_a_message_that_something_unexpected_befell_is_not_kept(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    caplog.set_level(logging.CRITICAL, "rocketpy.remoting.answers")  # what is captured holds tracebacks, too
    async with broker_and_client() as (_, client):
        stored = await client.send()
        await client.heartbeat("g", "T")
        monkeypatch.setattr(StoreStage, "_take", fail)
        back = {"group": "g", "offset": stored.ext_fields["msgId"][-16:], "delayLevel": "0", "originTopic": "T"}
        back["offset"] = str(int(back["offset"], 16))
        for _ in range(3):
            answer = await (client.send() if code == RequestCode.SEND_MESSAGE_V2 else client.ask(code, back))
            assert answer.code == ResponseCode.SYSTEM_ERROR
        assert kept() == []
