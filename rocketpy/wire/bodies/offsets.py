"""Tables of offsets."""

from __future__ import annotations

from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = ["ConsumerOffsetSerializeWrapper", "DelayOffsetSerializeWrapper", "QueryCorrectionOffsetBody"]


@body
class ConsumerOffsetSerializeWrapper(Body):
    """Where every group stands: "topic@group", then queue id, then offset. Also the file consumerOffset.json."""

    offset_table: dict[str, dict[Int32, int]] = member(factory=dict)
    data_version: DataVersion | None = None


@body
class DelayOffsetSerializeWrapper(Body):
    """How far each delay level has been delivered. Also the file delayOffset.json."""

    offset_table: dict[Int32, int] = member(factory=dict)
    data_version: DataVersion | None = None


@body
class QueryCorrectionOffsetBody(Body):
    """By queue id, the offset to go on from."""

    correction_offsets: dict[Int32, int] = member(factory=dict)
