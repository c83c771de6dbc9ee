"""How much a broker reads for groups that are far behind, and how much it allows (5.x)."""

from __future__ import annotations

from rocketpy.wire.json_body import Body, body, member

__all__ = ["ColdDataFlowControlInfo", "ColdReads"]


@body
class ColdReads(Body):
    """What was read for one group."""

    cold_acc: int = 0
    """Bytes in the running second."""
    last_cold_read_time_mills: int | None = None
    create_time_mills: int | None = None


@body
class ColdDataFlowControlInfo(Body):
    """The answer to GET_COLD_DATA_FLOW_CTR_INFO: bytes a second, by group and for all of them."""

    runtime_table: dict[str, ColdReads] = member(factory=dict)
    config_table: dict[str, int] = member(factory=dict)
    cg_cold_read_threshold: int = 0
    global_cold_read_threshold: int = 0
    global_acc: int = 0
