"""What closed consumers have left behind: no lock, and the offsets of what their listeners have returned from."""

from __future__ import annotations

from pathlib import Path

from rocketpy import LocalFileOffsetStore, MessageModel
from rocketpy.message import MessageQueue

__all__ = ["wrongly_kept"]


def wrongly_kept(world, needs):
    """What is wrong with that; "" when nothing is.

    Args:
        world: is closed, its client after its consumers.
        needs: the parts that it had.
    """
    wrong = []
    for need in needs:
        if need in ("consumer", "ordered"):
            consumer = world.started[need]
            known = world.cluster.progress(consumer.config.group, [world.heard, world.awaited])
            if known["locks"]:
                wrong.append(f"{known['locks']} queues of {consumer!r} are still locked")
            if need == "consumer":
                wrong += _misplaced(world, consumer, known["offsets"])
    return "\n".join(wrong)


def _misplaced(world, consumer, at_brokers):
    """Where the group goes on is behind the last message that a listener has returned from, and no further."""
    for topic in (world.heard, world.awaited):
        finished = {offset for of, offset in world.users.finished if of == topic}
        if finished:
            due = next(offset for offset in range(min(finished), max(finished) + 2) if offset not in finished)
            kept = _kept(consumer, topic, at_brokers)
            if kept != due:
                yield f"{consumer!r} goes on in {topic} at {kept} instead of {due}"


def _kept(consumer, topic, at_brokers):
    config, queue = consumer.config, MessageQueue(topic, "broker-a", 0)
    if config.offset_store is not None:
        return config.offset_store.offsets.get(queue)
    if config.message_model is MessageModel.BROADCASTING:
        (path,) = Path(config.local_offset_store_dir).glob(f"*/{config.group}/offsets.json")
        file = LocalFileOffsetStore(path)
        file.open()
        try:
            return file.read(queue)
        finally:
            file.close()
    return at_brokers[topic]
