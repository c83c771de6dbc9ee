"""Messages inside captured frames: records that brokers sent, batches and packed bodies that Java clients sent."""

from __future__ import annotations

from collections.abc import Iterator

from rocketpy.message import Message
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.compression import decompress
from rocketpy.wire.message_codec import decode_batch, decode_messages, encode_batch
from rocketpy.wire.message_id import decode_offset_message_id, uniq_id_ip
from rocketpy.wire.names import is_valid_stored_topic
from rocketpy.wire.properties import decode_properties, encode_properties
from rocketpy.wire.serialize import decode_command
from rocketpy.wire.sysflag import COMPRESSED
from tests.wire.golden import GoldenFrame, whole_frames

ANSWERS_WITH_RECORDS = {
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.POP_MESSAGE,
}
REQUESTS_WITH_RECORDS = {RequestCode.CHECK_TRANSACTION_STATE, RequestCode.CONSUME_MESSAGE_DIRECTLY}
SENDS = {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}


def has_records(golden: GoldenFrame) -> bool:
    code = golden.request_code
    if golden.is_answer:
        return golden.record["code"] == 0 and code in ANSWERS_WITH_RECORDS
    # Towards a client the message itself travels; towards a broker only its id.
    return code in REQUESTS_WITH_RECORDS and bool(golden.frame().body)


def sends() -> Iterator[tuple[dict[str, str], bytes, bool]]:
    """Fields, body and whether it is a batch, of every send request."""
    for golden in whole_frames():
        if not golden.is_answer and golden.request_code in SENDS:
            command = decode_command(golden.frame())
            yield command.ext_fields, command.body, golden.request_code == RequestCode.SEND_BATCH_MESSAGE


def field(fields: dict[str, str], name: str, short: str) -> str:
    return fields.get(name) or fields.get(short) or ""


def test_P13_every_record_on_the_wire_is_decoded() -> None:
    count = 0
    for golden in filter(has_records, whole_frames()):
        body = golden.frame().body
        found = decode_messages(body)
        assert found, golden
        assert sum(message.store_size for message in found) == len(body)
        for message in found:
            assert is_valid_stored_topic(message.topic)
            assert message.body
            assert message.born_timestamp > 1_700_000_000_000
            assert decode_offset_message_id(message.offset_message_id)[2] == message.commit_log_offset
            assert message.wire_properties
        count += len(found)
    assert count > 200


def test_P14_properties_of_java_clients_are_written_again_as_they_were() -> None:
    count = 0
    for fields, _, _ in sends():
        text = field(fields, "properties", "i")
        properties = decode_properties(text)
        assert encode_properties(properties, refuse_separators=True).removesuffix("\x02") == text.removesuffix("\x02")
        if "UNIQ_KEY" in properties:
            assert uniq_id_ip(properties["UNIQ_KEY"])
            count += 1
    assert count > 50


def test_batches_of_java_clients_are_written_again_as_they_were() -> None:
    count = 0
    for _, body, is_batch in sends():
        if is_batch:
            batch = []
            for item in decode_batch(body):
                message = Message("T", item.body)
                message.flag, message.wire_properties = item.flag, decode_properties(item.properties.decode())
                batch.append(message)
            # 4.9.7 leaves the last separator of every item out.
            if all(item.properties.endswith(b"\x02") for item in decode_batch(body)):
                assert encode_batch(batch) == body
                count += len(batch)
    assert count > 10


def test_P17_bodies_packed_by_java_clients_are_unpacked() -> None:
    packed = [
        (body, int(field(fields, "sysFlag", "f")))
        for fields, body, _ in sends()
        if int(field(fields, "sysFlag", "f")) & COMPRESSED
    ]
    assert len(packed) > 3
    for body, sys_flag in packed:
        assert decompress(body, sys_flag)
