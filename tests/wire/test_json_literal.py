"""Numbers with a fraction or an exponent as text. What Apache's classes say of them, `test_json_as_java` has."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.wire.frame import FrameDecoder
from rocketpy.wire.json_literal import Literal
from rocketpy.wire.lenient_json import parse_json
from rocketpy.wire.serialize import decode_command

DIGITS = st.text("0123456789", min_size=1, max_size=30)


@given(st.sampled_from(["", "-"]), DIGITS, DIGITS, st.none() | st.integers(-400, 400))
def test_the_text_is_that_of_a_decimal_and_no_zero_is_negative(
    sign: str, whole: str, fraction: str, exponent: int | None
) -> None:
    literal = f"{sign}{whole}.{fraction}" + ("" if exponent is None else f"e{exponent}")
    expected = Decimal(literal)
    assert Literal(literal).java_text == str(expected or abs(expected))


@pytest.mark.parametrize(("literal", "text"), [("5.", "5"), (".5", "0.5"), ("+1.5", "1.5"), ("00.5", "0.5")])
def test_what_only_fastjson_takes_for_a_number_has_a_text(literal: str, text: str) -> None:
    assert Literal(literal).java_text == text


@pytest.mark.parametrize(
    "number", ["1e2147483648", "1E2147483648", "1e-2147483648", "1.5e-2147483647", "1e" + "9" * 200]
)
def test_a_number_that_java_has_no_place_for_is_refused(number: str) -> None:
    with pytest.raises(RemoteProtocolError, match="out of range"):
        parse_json(f'{{"a": {number}}}')
    header = f'{{"code":1,"extFields":{{"a":{number}}}}}'.encode()
    data = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    decoder = FrameDecoder()
    decoder.receive_data(data)
    [frame] = decoder.frames()
    with pytest.raises(RemoteProtocolError, match="out of range"):
        decode_command(frame)
