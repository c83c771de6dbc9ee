"""A listener that returns what has no meaning is told of it once, on every surface."""

from __future__ import annotations

import pytest

from rocketpy import Message
from tests.surfaces.surface import call, entered
from tests.surfaces.test_lite_figures import eventually


@pytest.mark.parametrize("orderly", [False, True])
def test_what_a_listener_must_not_return_is_logged_once(surface, namesrv, topic, orderly, caplog):
    seen = []

    async def main():
        module = surface.module
        consumer = module.PushConsumer(
            topic, namesrv=namesrv, orderly=orderly, consume_from_where="earliest", suspend_current_queue_time=0.01
        )
        consumer.subscribe(topic, lambda message: seen.append(message) or "done")
        async with entered(module.Producer("p", namesrv=namesrv)) as producer:
            for _ in range(3):
                await call(producer.send(Message(topic, "x")))
        async with entered(consumer):
            await eventually(surface, lambda: len(seen) >= 3)

    surface.run(main)
    [line] = [entry for entry in caplog.records if "which has no meaning here" in entry.message]
    assert line.levelname == "ERROR"
    assert "returned 'done' for <MessageExt" in line.message
    assert "return None, True or ConsumeResult.SUCCESS if it is done" in line.message
    again = "ConsumeResult.RETRY, a RetryLater or a Suspend if" if orderly else "ConsumeResult.RETRY or a RetryLater if"
    assert f"and False, {again} it is to be tried again. It is tried again." in line.message
