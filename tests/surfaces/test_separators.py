"""Tags that are joined by another separator than || are probably several, on every surface and for every consumer."""

from __future__ import annotations

import pytest

from rocketpy import MessageQueue
from tests.surfaces.surface import call, entered


@pytest.mark.parametrize("tags", ["a,b", "a|b", "a || b | c"])
def test_a_wrong_separator_is_warned_of(surface, namesrv, topic, tags, caplog):
    module = surface.module
    said = f"the filter of {topic} has tags '{tags}': the separator of tags is ||, as in 'created || paid'"

    async def main():
        push = module.PushConsumer("push", namesrv=namesrv)
        push.subscribe(topic, print, tags=tags)
        assert caplog.messages == [said]
        lite = module.LitePullConsumer("lite", namesrv=namesrv)
        lite.subscribe(topic, tags=tags)
        assert caplog.messages == [said] * 2
        async with (
            entered(module.Producer("p", namesrv=namesrv)) as producer,
            entered(module.PullConsumer("pull", namesrv=namesrv)) as pull,
        ):
            await call(producer.create_topic(topic, queues=1))
            for _ in range(3):
                await call(pull.pull(MessageQueue(topic, "broker-a", 0), 0, tags=tags))
        assert caplog.messages.count(said) == 3

    surface.run(main)


def test_the_right_separator_is_not_warned_of(surface, namesrv, topic, caplog):
    for tags in ("a || b", "a||b", "*", None, "a-b"):
        surface.module.PushConsumer("push", namesrv=namesrv).subscribe(topic, print, tags=tags)
    assert caplog.messages == []
