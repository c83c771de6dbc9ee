"""What cannot be right is refused when it is given, in the same words on every surface."""

from __future__ import annotations

import pytest

from rocketpy import Message
from rocketpy.errors import ConfigError
from tests.surfaces.surface import SURFACES, call, entered


@pytest.mark.parametrize("role", ["Producer", "PushConsumer"])
@pytest.mark.parametrize("name", SURFACES)
def test_what_is_no_client_cannot_be_shared(name: str, role: str) -> None:
    module = SURFACES[name].module
    with pytest.raises(ConfigError, match=rf"client must be a {module.__name__}\.MQClientInstance, not 'mine'"):
        getattr(module, role)("group", namesrv="127.0.0.1:9876", client="mine")


@pytest.mark.waits("for brokers")
@pytest.mark.parametrize("timeout", [float("inf"), 1e300, 10**30])
def test_a_timeout_may_be_as_long_as_one_likes(surface, namesrv, topic, timeout):
    async def main():
        module = surface.module
        async with (
            entered(module.Producer("p", namesrv=namesrv)) as producer,
            entered(module.Producer("l", namesrv=namesrv, linger=0.01)) as lingering,
        ):
            for _ in range(60):  # the first ones go another way than the others
                # In threads, a send that is not alone waits in another way.
                soon = []
                if hasattr(producer, "send_soon"):
                    soon = [producer.send_soon(Message(topic, b"x"), timeout=timeout) for _ in range(3)]
                await call(producer.send(Message(topic, b"x"), timeout=timeout))
                await call(producer.send(Message(topic, b"x", sharding_key="k"), timeout=timeout))
                await call(producer.send_batch([Message(topic, b"x")] * 2, timeout=timeout))
                assert all(future.result(10) for future in soon)
            await call(lingering.send(Message(topic, b"x"), timeout=timeout))
            later = await call(producer.send(Message(topic, b"x", delay=60), timeout=timeout))
            assert await call(producer.recall(topic, later.recall_handle, timeout=timeout)) == later.message_id
            assert (await call(producer.send_many([Message(topic, b"x")] * 3, timeout=timeout))).messages == 3

    surface.run(main)
