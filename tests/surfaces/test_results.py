"""What a result says, in every way to send and on every surface: all of it is from the broker's own answer."""

from __future__ import annotations

import pytest

from rocketpy import LocalTransactionState, Message, MessageQueue, SendStatus
from rocketpy_broker_sim import BlockingLocalCluster
from tests.surfaces.surface import call, entered


@pytest.fixture(scope="module")
def elsewhere():
    """A cluster in a region of its own, which has no message traced."""
    with BlockingLocalCluster(region_id="Elsewhere", trace_on=False) as running:
        yield running


def test_every_way_to_send_tells_all_that_the_broker_has_answered(surface, elsewhere, topic):
    settings = {"namesrv": elsewhere.name_server_addresses}
    elsewhere.create_topic(topic, queues=1)

    async def main():
        module, found = surface.module, {}
        async with entered(module.Producer("pg", **settings)) as producer:
            found["first"] = await call(producer.send(Message(topic, b"0")))
            found["warm"] = await call(producer.send(Message(topic, b"1")))
            if surface.name == "blocking":
                found["soon"] = producer.send_soon(Message(topic, b"2")).result(10)
            else:
                assert await producer.send_oneway(Message(topic, b"2")) is None
            found["queue"] = await call(producer.send(Message(topic, b"3"), queue=MessageQueue(topic, "broker-a", 0)))
            found["batch"] = await call(producer.send_batch([Message(topic, b"4"), Message(topic, b"5")]))
            found["timed"] = await call(producer.send(Message(topic, b"later", delay=3600)))
        async with entered(module.Producer("pg", linger=0.002, **settings)) as producer:
            found["lingered"] = await call(producer.send(Message(topic, b"6")))
        async with entered(module.TransactionProducer("pg", checker=lambda _: None, **settings)) as producer:
            commit = LocalTransactionState.COMMIT
            sent = await call(producer.send_in_transaction(Message(topic, b"7"), lambda message, arg: commit))
            assert sent.transaction_id == sent.send_result.transaction_id
            found["half"] = sent.send_result
        return found

    found = surface.run(main)
    for way, result in found.items():
        assert (result.status, result.region_id, result.trace_on) == (SendStatus.SEND_OK, "Elsewhere", False), way
        assert result.queue == (topic, "broker-a", 0), way
        assert result.transaction_id == (None if way == "batch" else result.message_id), way
        assert (result.recall_handle is not None) == (way == "timed"), way
        assert len(result.offset_message_id.split(",")) == len(result.message_id.split(",")), way
    stored = {message.message_id: message for message in elsewhere.messages(topic)}
    for way in found.keys() - {"timed", "half"}:
        first, *_ = found[way].message_id.split(",")
        assert stored[first].queue_offset == found[way].queue_offset, way
        assert stored[first].offset_message_id == found[way].offset_message_id.split(",")[0], way
