"""The ends of queues, and what was stored when."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock

from rocketpy.seams import wall_clock
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.offset import SearchOffsetResponseHeader
from tests.broker_sim.broker.kit import Client, broker_and_client
from tests.virtual_time import loop_time

EPOCH = 1_800_000_000_000


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(EPOCH)):
        yield


async def number(client: Client, code: int, topic: str = "T", queue: int = 0, **fields: str) -> int:
    answer = await client.ask(code, {"topic": topic, "queueId": str(queue), **fields})
    assert answer.code == 0, answer.remark
    (value,) = answer.ext_fields.values()
    return int(value)


async def test_A6_the_ends_of_a_queue(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (_, client):
        for _ in range(3):
            await client.send()
        assert await number(client, RequestCode.GET_MIN_OFFSET) == 0
        assert await number(client, RequestCode.GET_MAX_OFFSET) == 3
        assert await number(client, RequestCode.GET_MAX_OFFSET, committed="false") == 3


@pytest.mark.parametrize(("topic", "queue"), [("T", 1), ("T", 99), ("T", -1), ("Unknown", 0)])
async def test_A6_a_queue_that_is_not_there_is_empty(autojump_clock: MockClock, topic: str, queue: int) -> None:
    async with broker_and_client() as (broker, client):
        await client.send()
        assert await number(client, RequestCode.GET_MIN_OFFSET, topic, queue) == 0
        assert await number(client, RequestCode.GET_MAX_OFFSET, topic, queue) == 0
        assert await number(client, RequestCode.GET_EARLIEST_MSG_STORETIME, topic, queue) == -1
        assert await number(client, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, topic, queue, timestamp="5") == 0
        assert broker.store.reads.queue_ids("Unknown") == []
        assert broker.store.reads.queue_ids("T") == [0]


async def test_A6_the_oldest_message_and_the_search_by_time(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        for _ in range(5):
            await client.send()
            await trio.sleep(10)
        times = [broker.store.reads.store_time("T", 0, offset) for offset in range(5)]
        assert await number(client, RequestCode.GET_EARLIEST_MSG_STORETIME) == times[0]

        async def at(timestamp: int, boundary: str = "lower") -> int:
            answer = await client.ask(
                RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
                {"topic": "T", "queueId": "0", "timestamp": str(timestamp), "boundaryType": boundary},
            )
            return SearchOffsetResponseHeader.from_ext(answer.ext_fields).offset

        assert [await at(time) for time in times] == [0, 1, 2, 3, 4]
        assert await at(times[2] - 1) == 2
        assert await at(times[2] - 1, "UPPER") == 1
        assert await at(0) == 0
        assert await at(times[4] + 1) == 5
        assert await at(times[4] + 1, "upper") == 4
        assert await number(client, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=str(times[1])) == 1


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_MIN_OFFSET,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_EARLIEST_MSG_STORETIME,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    ],
)
async def test_P5_threat_F13_a_missing_field_is_an_answer_and_the_connection_stays(
    autojump_clock: MockClock, code: RequestCode
) -> None:
    async with broker_and_client() as (_, client):
        assert (await client.ask(code, {"topic": "T"})).code == ResponseCode.SYSTEM_ERROR
        assert (await client.ask(code, {"queueId": "0"})).code == ResponseCode.SYSTEM_ERROR
        assert (await client.send()).code == 0
