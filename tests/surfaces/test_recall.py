"""Taking messages back, on every surface."""

from __future__ import annotations

import inspect

import pytest

from rocketpy import ConfigError, IllegalOperationError, Message
from rocketpy.wire.recall_handle import RecallHandle
from tests.surfaces.surface import call, entered


def test_DL5_a_message_is_taken_back_before_it_is_due(surface, cluster, namesrv, topic):
    async def main():
        async with entered(surface.module.Producer("pg", namesrv=namesrv)) as producer:
            results = [await call(producer.send(Message(topic, b"x", delay=3600))) for _ in range(2)]
            handle = results[0].recall_handle
            assert await call(producer.recall(topic, handle)) == results[0].message_id
            with pytest.raises(ConfigError, match="not of Other"):
                await call(producer.recall("Other", handle))
            passed = RecallHandle.decode(handle)._replace(timestamp="1").encode()
            with pytest.raises(IllegalOperationError, match="already due"):
                await call(producer.recall(topic, passed, timeout=5))
            with pytest.raises(ConfigError, match="timeout"):
                await call(producer.recall(topic, handle, timeout=0))
            undelayed = await call(producer.send(Message(topic, b"x")))
            with pytest.raises(ConfigError, match="the recall handle is None"):
                await call(producer.recall(topic, undelayed.recall_handle))
            assert inspect.signature(producer.recall).parameters["handle"].annotation == "str | None"
            if surface.name == "blocking":
                assert producer.send_soon(Message(topic, b"x", delay=3600)).result().recall_handle is not None

    surface.run(main)
