"""Resets a group as an administrator does: asks the broker, which answers with the new offset of each queue."""

from __future__ import annotations

import trio

from rocketpy.client.call import ask, request
from rocketpy.client.instance import MQClientInstance
from rocketpy.errors import BrokerError, RocketMQError
from rocketpy.remoting.memory import MemoryNetwork
from rocketpy.seams import wall_ms
from rocketpy.wire.bodies.offsets import ResetOffsetBody
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.offset import ResetOffsetRequestHeader
from rocketpy_broker_sim.broker.broker import Broker
from tests.checker import Fault
from tests.schedules.plan import TOPIC

__all__ = ["reset"]

TO_THE_END = -1


async def reset(broker: Broker, network: MemoryNetwork, namesrv: str, group: str, back: float | None) -> list[Fault]:
    """Reset a group on one broker's queues by some seconds, or to their ends. Returns the new offset of each queue.

    A reset that the broker refuses has no effect. If the broker does not answer, the effect is unknown.

    Args:
        back: How many seconds to go back; None for the ends.
    """
    timestamp = TO_THE_END if back is None else max(0, wall_ms() - int(back * 1000))
    header = ResetOffsetRequestHeader(group=group, topic=TOPIC, timestamp=timestamp, is_force=True)
    began = trio.current_time()
    expected = _expected(broker, timestamp)
    async with MQClientInstance(namesrv=namesrv, network=network) as admin:
        command = request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        try:
            answer = await ask(admin.pool, broker.address, command, timeout=3.0, doing="resetting offsets")
        except BrokerError:
            return []
        except RocketMQError:
            return [
                *_faults(began, expected, certain=False),
                *_faults(began, _expected(broker, timestamp), certain=False),
            ]
    table = ResetOffsetBody.decode(answer.body).offset_table
    offsets = {(queue.topic, queue.broker_name, queue.queue_id): offset for queue, offset in table.items()}
    return _faults(began, offsets, certain=True)


def _expected(broker: Broker, timestamp: int) -> dict[tuple[str, str, int], int]:
    """The offsets to which a reset would move the queues now."""
    found = {}
    for queue_id in range(broker.topics.get(TOPIC).read_queue_nums):
        line = TOPIC, broker.config.broker_name, queue_id
        if timestamp == TO_THE_END:
            found[line] = broker.store.reads.max_offset(TOPIC, queue_id)
        else:
            found[line] = broker.store.reads.offset_by_time(TOPIC, queue_id, timestamp)
    return found


def _faults(at: float, offsets: dict[tuple[str, str, int], int], *, certain: bool) -> list[Fault]:
    return [Fault(at=at, what="reset", queue=line, offset=to, certain=certain) for line, to in offsets.items()]
