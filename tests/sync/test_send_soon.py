"""send_soon, interrupted in any step: the lane of its sharding key is free for the next."""

from __future__ import annotations

import pytest

from rocketpy.sync import Message, Producer, SendStatus


@pytest.mark.parametrize("step", ["take", "take, behind another", "begin", "until"])
def test_ctrl_c_in_send_soon_leaves_the_lane_of_its_key_to_the_next(namesrv, topic, monkeypatch, step):
    with Producer("pg", namesrv=namesrv, send_timeout=5) as producer:
        producer.send(Message(topic, b"makes the topic"))
        while not producer._inner.client.data_links.all():
            producer.send(Message(topic, b"connects"))
        core, message = producer._direct.core, Message(topic, b"x", sharding_key="k")
        place = core.order if step.startswith("take") else core
        name = step.partition(",")[0]
        real = getattr(place, name)
        key = topic, "k"
        holds = step == "take, behind another" and core.order.try_take(key)

        def struck(*arguments, **keywords):
            real(*arguments, **keywords)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(place, name, struck)
            with pytest.raises(KeyboardInterrupt):
                producer.send_soon(message)
        if holds:
            core.order.pass_on(key)
        assert len(core.order) == 0
        assert producer.send_soon(message).result().status is SendStatus.SEND_OK
        assert len(core.order) == 0
