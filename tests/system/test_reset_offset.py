"""A consumer goes on from where an administrator has set its group, while it consumes."""

from __future__ import annotations

from collections import Counter

import trio
from trio.testing import MockClock

from rocketpy.client.api.call import ask
from rocketpy.client.instance import MQClientInstance
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.enums import ConsumeFromWhere
from rocketpy.wire.headers.offset import ResetOffsetRequestHeader
from tests.system.consuming import Recorder, world


async def test_OF4_a_group_is_reset_while_it_consumes(autojump_clock: MockClock) -> None:
    async with world() as w:
        sent = await w.send(20)
        recorder, consumer = Recorder(), w.consumer(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        consumer.subscribe("Orders", recorder)
        where = {"namesrv": w.cluster.name_server_addresses, "network": w.cluster.network}
        async with consumer, MQClientInstance(**where) as admin:
            await recorder.wait_count(20)
            header = ResetOffsetRequestHeader(group="billing", topic="Orders", timestamp=0, is_force=True)
            command = RemotingCommand(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header.to_ext())
            await admin.routes.ensure("Orders")
            [addresses] = admin.routes.brokers().values()
            await ask(admin.pool, addresses[0], command, timeout=3, doing="resetting offsets")
            await recorder.wait_count(40)
            await trio.sleep(60)
        assert recorder.bodies == Counter(sent * 2)
