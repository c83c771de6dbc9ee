"""The ids in the answer to a put are made of the broker's address and the positions of the records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.wire.hosts import pack_host
from rocketpy.wire.message_id import offset_message_id
from rocketpy_broker_sim.store.put_result import PutMessageResult, PutMessageStatus

HOSTS = [pack_host("192.168.3.250", 10911), pack_host("fd00::17", 65535)]


@pytest.mark.parametrize("host", HOSTS, ids=["v4", "v6"])
@given(st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=6))
def test_the_ids_of_a_batch_are_those_of_its_messages(host: bytes, positions: list[int]) -> None:
    batch = PutMessageResult(PutMessageStatus.PUT_OK, positions[0], store_host=host, offsets=positions)
    single = [PutMessageResult(PutMessageStatus.PUT_OK, position, store_host=host) for position in positions]
    assert batch.offset_message_id == ",".join(each.offset_message_id for each in single)
    assert batch.offset_message_id == ",".join(offset_message_id(host, position) for position in positions)
