"""Transactions while messages are in buffers before the log (`transientStorePoolEnable`), where nobody reads them."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from rocketpy.message import Message, MessageExt
from rocketpy.producer import TransactionProducer
from rocketpy.results import LocalTransactionState
from tests.system.consuming import Recorder, wait_until, world


@pytest.mark.parametrize("state", ["commit", "unknown"])
async def test_a_check_is_asked_of_what_can_be_read(autojump_clock: MockClock, state: Any) -> None:
    """The first end may come before the half message is in its queue, and is refused; the end of a check may not."""
    got, checked = Recorder(), list[bytes]()

    def check(message: MessageExt) -> LocalTransactionState:
        checked.append(message.body)
        return LocalTransactionState.COMMIT

    settings: dict[str, Any] = {
        "transient_store_pool_enable": True,
        "transaction_check_interval": 1000,
        "transaction_time_out": 500,
    }
    async with world(**settings) as w, w.consumer() as consumer:
        consumer.subscribe("Orders", got)
        await consumer.wait_assigned(10)
        cluster = w.cluster
        async with TransactionProducer(
            "orders",
            checker=check,
            executor=lambda message, arg: state,
            namesrv=cluster.name_server_addresses,
            network=cluster.network,
        ) as producer:
            for number in range(10):
                await producer.send_in_transaction(Message("Orders", b"%d" % number))
            await wait_until(lambda: len(set(got.bodies)) == 10, within=30)
        assert len(checked) <= 10
