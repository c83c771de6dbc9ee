"""A bug in the background of a consumer is heard on every surface."""

from __future__ import annotations

import logging

import pytest

from rocketpy import Message, ServiceCrashedError
from rocketpy.sync import Producer as BlockingProducer
from tests.surfaces.surface import call, entered


def bug(*_):
    raise ZeroDivisionError("a bug")


@pytest.mark.waits("the client that is shared looks at its routes again after a while, and crashes then")
@pytest.mark.parametrize("where", ["own client", "shared client"])
def test_a_crash_ends_who_waits_and_shows(surface, namesrv, topic, where, caplog):
    with BlockingProducer("filler", namesrv=namesrv) as producer:
        producer.create_topic(topic, queues=2)
    group = f"crashing_{topic}"

    async def crash(consumer):
        inner = getattr(consumer, "_inner", consumer)
        if where == "own client":
            consumer.subscribe(topic, lambda message: None)
            await call(consumer.wait_assigned(10))
            inner._running.consume.submit = bug
            with BlockingProducer("filler", namesrv=namesrv) as producer:
                producer.send(Message(topic, b"x"))
        else:
            inner.client.routes.refresh_all = bug  # looked at every 0.2 s
        try:
            with pytest.raises(ServiceCrashedError, match="a bug"):
                await call(consumer.run_forever())
            with pytest.raises(ServiceCrashedError, match="a bug"):
                await call(consumer.wait_assigned(10))
        finally:
            assert "a bug" in str(consumer.status().crash)

    async def live():
        if where == "own client":
            async with entered(surface.module.PushConsumer(group, namesrv=namesrv)) as consumer:
                seen.append(consumer)
                await crash(consumer)
            return
        settings = {"namesrv": namesrv, "poll_name_server_interval": 0.2}
        async with entered(surface.module.MQClientInstance(**settings)) as client:
            async with entered(surface.module.PushConsumer(group, client=client)) as consumer:
                seen.append(consumer)
                await crash(consumer)

    async def main():
        try:
            await live()
        except ServiceCrashedError as error:
            raised.append(str(error))
        else:
            # Blocking code that has closed the consumer has heard of it then.
            assert surface.name == "blocking"
            assert where == "own client"
        assert "a bug" in str(seen[0].status().crash)
        assert all("a bug" in text for text in raised)

    seen, raised = [], []
    with caplog.at_level(logging.ERROR, "rocketpy"):
        surface.run(main)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(lines) == 1
    assert lines[0].endswith("ends because of a bug in a background service: ZeroDivisionError('a bug')")
