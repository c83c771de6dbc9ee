"""Messages that wait in the broker while maxMessageSize is made smaller: they were accepted, and are delivered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rocketpy.seams import wall_clock
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.broker.kit import Client, broker_and_client
from tests.broker_sim.broker.transacting import DISCARDED, end, end_oneway, join, questions, send_half, stored
from tests.virtual_time import loop_time

LARGE = b"x" * 2000


@pytest.fixture(autouse=True)
def virtual() -> Iterator[None]:
    """Wall time that goes with the virtual clock of the loop."""
    with wall_clock(loop_time(1_800_000_000_000)):
        yield


async def allow_less(client: Client) -> None:
    """Let the broker accept no message as large as `LARGE` from now on."""
    answer = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, body=b"maxMessageSize=1000\n")
    assert answer.code == 0, answer.remark
    assert (await client.send(body=LARGE)).code == ResponseCode.MESSAGE_ILLEGAL


@pytest.mark.parametrize("properties", ["DELAY\x011\x02", "TIMER_DELAY_SEC\x012\x02"])
async def test_a_delayed_message_is_delivered(autojump_clock: MockClock, properties: str) -> None:
    async with broker_and_client() as (broker, client):
        assert (await client.send(body=LARGE, properties=properties)).code == 0
        await allow_less(client)
        await trio.sleep(5)
        assert [message.body for message in stored(broker, "T")] == [LARGE]


async def test_after_a_restart_too(autojump_clock: MockClock) -> None:
    storage = MemoryStorage()
    async with broker_and_client(storage=storage) as (_, client):
        for properties in ("DELAY\x011\x02", "TIMER_DELAY_SEC\x012\x02"):
            assert (await client.send(body=LARGE, properties=properties)).code == 0
    async with broker_and_client(storage=storage, max_message_size=1000) as (broker, _):
        await trio.sleep(5)
        assert [message.body for message in stored(broker, "T")] == [LARGE, LARGE]


async def test_a_transaction_is_checked_and_committed(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await join(client, "p")
        await send_half(client, body=LARGE)
        await allow_less(client)
        await trio.sleep(31)
        ((asked, _),) = questions(client)
        assert stored(broker, DISCARDED) == []
        assert (await end(client, asked, from_transaction_check=True)).code == 0
        assert [message.body for message in stored(broker, "T")] == [LARGE]


async def test_transactions_that_are_committed_together_are_stored(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        halves = [await send_half(client, f"U{number}", LARGE) for number in range(8)]
        await allow_less(client)
        for half in halves:
            end_oneway(client, half)
        await wait_all_tasks_blocked()
        assert [message.body for message in stored(broker, "T")] == [LARGE] * 8


async def test_a_transaction_without_an_end_is_set_aside(autojump_clock: MockClock) -> None:
    async with broker_and_client(transaction_check_max=1) as (broker, client):
        await send_half(client, body=LARGE)
        await allow_less(client)
        await trio.sleep(65)
        assert [message.body for message in stored(broker, DISCARDED)] == [LARGE]


async def test_a_message_is_given_back(autojump_clock: MockClock) -> None:
    async with broker_and_client() as (broker, client):
        await client.heartbeat("g", "T")
        assert (await client.send(body=LARGE)).code == 0
        await allow_less(client)
        (message,) = stored(broker, "T")
        fields = {"group": "g", "offset": str(message.commit_log_offset), "delayLevel": "1"}
        assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, fields)).code == 0
        await trio.sleep(2)
        assert [again.body for again in stored(broker, "%RETRY%g")] == [LARGE]
