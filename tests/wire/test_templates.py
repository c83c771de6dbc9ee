"""A frame from a template means the same as one that is written field by field."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError
from rocketpy.wire.codes import ONEWAY_FLAG, RequestCode, SerializeType
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.headers.send import SendMessageRequestHeader
from rocketpy.wire.headers.transaction import EndTransactionRequestHeader
from rocketpy.wire.limits import WireLimits
from rocketpy.wire.serialize import decode_command, encode_command
from rocketpy.wire.templates import EndTemplate, PullTemplate, SendTemplate
from tests.wire.strategies import INT32, INT64, TEXT, cut

SEND = SendMessageRequestHeader(
    producer_group="group%s",
    topic='to"pic%d\\',
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=99,
    sys_flag=99,
    born_timestamp=99,
    flag=99,
    properties="placeholder",
    reconsume_times=0,
    unit_mode=False,
    batch=False,
    bname="broker-a",
)
PULL = PullMessageRequestHeader(
    consumer_group="group",
    topic="topic",
    queue_id=3,
    queue_offset=99,
    max_msg_nums=32,
    sys_flag=99,
    commit_offset=99,
    suspend_timeout_millis=15000,
    subscription='a || "b"',
    sub_version=123,
    expression_type="TAG",
    bname="broker-a",
)

END = EndTransactionRequestHeader(
    topic="T%s",
    producer_group='gr"oup',
    tran_state_table_offset=99,
    commit_log_offset=99,
    commit_or_rollback=8,
    from_transaction_check=False,
    msg_id="placeholder",
    transaction_id="placeholder",
    bname="broker-a",
)


def meaning(command: RemotingCommand) -> RemotingCommand:
    """The command as a peer reads it."""
    return decode_command(cut(encode_command(command)))


@given(INT32, INT32, INT32, INT64, INT32, TEXT, st.binary(max_size=50), st.booleans(), st.sampled_from(SerializeType))
def test_P7_send(
    opaque: int,
    queue_id: int,
    sys_flag: int,
    born: int,
    flag: int,
    properties: str,
    body: bytes,
    oneway: bool,
    kind: SerializeType,
) -> None:
    template = SendTemplate(SEND, serialize_type=kind)
    header = attrs.evolve(
        SEND, queue_id=queue_id, sys_flag=sys_flag, born_timestamp=born, flag=flag, properties=properties
    )
    whole = RemotingCommand(RequestCode.SEND_MESSAGE_V2, header.to_short_ext(), body, opaque, serialize_type=kind)
    whole.flag = ONEWAY_FLAG if oneway else 0
    frame = template.frame(opaque, queue_id, sys_flag, born, flag, properties, body, oneway=oneway)
    assert decode_command(cut(frame)) == meaning(whole)


@given(INT32, INT64, INT32, INT64, st.sampled_from(SerializeType))
def test_P7_pull(opaque: int, offset: int, sys_flag: int, commit: int, kind: SerializeType) -> None:
    template = PullTemplate(PULL, serialize_type=kind)
    header = attrs.evolve(PULL, queue_offset=offset, sys_flag=sys_flag, commit_offset=commit)
    whole = RemotingCommand(RequestCode.PULL_MESSAGE, header.to_ext(), b"", opaque, serialize_type=kind)
    assert decode_command(cut(template.frame(opaque, offset, sys_flag, commit))) == meaning(whole)


@given(INT32, INT64, INT64, st.sampled_from([0, 8, 12]), TEXT, TEXT, st.sampled_from(SerializeType))
def test_P7_end(
    opaque: int, offset: int, position: int, state: int, message: str, transaction: str, kind: SerializeType
) -> None:
    header = attrs.evolve(
        END,
        tran_state_table_offset=offset,
        commit_log_offset=position,
        commit_or_rollback=state,
        msg_id=message,
        transaction_id=transaction,
    )
    whole = RemotingCommand.oneway(RequestCode.END_TRANSACTION, header.to_ext())
    whole.opaque, whole.serialize_type = opaque, kind
    assert decode_command(cut(EndTemplate(END, serialize_type=kind).frame(opaque, header))) == meaning(whole)


@pytest.mark.parametrize("kind", SerializeType)
def test_an_end_with_an_id_that_is_no_text_is_refused(kind: SerializeType) -> None:
    with pytest.raises(LocalProtocolError, match="not valid Unicode"):
        EndTemplate(END, serialize_type=kind).frame(1, attrs.evolve(END, transaction_id="\ud800"))


def test_other_codes_and_inherited_fields() -> None:
    header = attrs.evolve(SEND, ns="inst", nsd=True, batch=True)
    template = SendTemplate(header, code=RequestCode.SEND_BATCH_MESSAGE)
    found = decode_command(cut(template.frame(1, 2, 3, 4, 5, "p", b"")))
    assert found.code == RequestCode.SEND_BATCH_MESSAGE
    assert (found.ext_fields["ns"], found.ext_fields["nsd"], found.ext_fields["m"]) == ("inst", "true", "true")
    lite = PullTemplate(PULL, code=RequestCode.LITE_PULL_MESSAGE)
    assert decode_command(cut(lite.frame(1, 2, 3, 4))).code == RequestCode.LITE_PULL_MESSAGE


@pytest.mark.parametrize("kind", SerializeType)
def test_a_frame_may_be_as_large_as_the_limit(kind: SerializeType) -> None:
    send, pull = (1, 2, 3, 4, 5, "p", b"body"), (1, 2, 3, 4)

    def exact(frame: bytes, less: int = 0) -> WireLimits:
        return WireLimits(max_frame=len(frame) - less)

    frame = SendTemplate(SEND, serialize_type=kind).frame(*send)
    assert SendTemplate(SEND, serialize_type=kind, limits=exact(frame)).frame(*send) == frame
    with pytest.raises(LocalProtocolError, match="over the limit"):
        SendTemplate(SEND, serialize_type=kind, limits=exact(frame, less=1)).frame(*send)
    frame = PullTemplate(PULL, serialize_type=kind).frame(*pull)
    assert PullTemplate(PULL, serialize_type=kind, limits=exact(frame)).frame(*pull) == frame
    with pytest.raises(LocalProtocolError, match="over the limit"):
        PullTemplate(PULL, serialize_type=kind, limits=exact(frame, less=1)).frame(*pull)


@pytest.mark.parametrize("kind", SerializeType)
def test_what_cannot_travel_is_refused(kind: SerializeType) -> None:
    template = SendTemplate(SEND, serialize_type=kind, limits=WireLimits(max_frame=2000))
    with pytest.raises(LocalProtocolError, match="Unicode"):
        template.frame(1, 0, 0, 0, 0, "\ud800", b"")
    with pytest.raises(LocalProtocolError, match="limit of 2000"):
        template.frame(1, 0, 0, 0, 0, "", bytes(2000))
    with pytest.raises(LocalProtocolError, match="310"):
        SendTemplate(attrs.evolve(SEND, topic="\ud800"), serialize_type=kind)
    with pytest.raises(LocalProtocolError, match="consumer_group"):
        PullTemplate(attrs.evolve(PULL, consumer_group=None), serialize_type=kind)
