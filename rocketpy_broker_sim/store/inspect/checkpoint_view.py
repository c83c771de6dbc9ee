"""The checkpoint file as a row: Apache's times, our positions, and whether ours count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy_broker_sim.store.checkpoint import PATH, read_checkpoint
from rocketpy_broker_sim.store.inspect.rows import translated

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import StoreLayout
    from rocketpy_broker_sim.store.inspect.message_rows import Row

__all__ = ["checkpoint_row"]


def checkpoint_row(layout: StoreLayout) -> Row:
    """What the file says, under Java's names where Java has one.

    Raises:
        StoreError: The file cannot be read.
    """
    with translated(layout.storage, PATH):
        exists = layout.storage.exists(PATH)
        known = read_checkpoint(layout.storage)
    return {
        "kind": "checkpoint",
        "exists": exists,
        "physicMsgTimestamp": known.log_timestamp,
        "logicsMsgTimestamp": known.queue_timestamp,
        "indexMsgTimestamp": known.index_timestamp,
        "masterFlushedOffset": known.master_flushed,
        "confirmPhyOffset": known.confirmed,
        "flushedPosition": known.flushed,
        "dispatchedPosition": known.dispatched,
        "indexedPosition": known.indexed,
    }
