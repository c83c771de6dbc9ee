"""The signature of a request: against captured ones, against Java's functions, and against what was tampered with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.security.credentials import Credentials
from rocketpy.security.signature import content_of, sign
from rocketpy.wire.serialize import decode_command
from tests.security.signed import is_signed
from tests.wire.golden import FILES, load

# As tests/golden/README.md has them.
SECRETS = {"goldenAK": "goldenSK12345678", "alice": "alicePw123", "bob": "bobPw9999", "mallory": "x"}
SIGNED = [file for file in FILES if any("Signature" in (golden.record["ext_fields"] or {}) for golden in load(file))]
VECTORS = json.loads((Path(__file__).resolve().parent.parent / "golden" / "vectors_java.json").read_text("utf-8"))


@pytest.mark.parametrize("file", SIGNED)
def test_every_captured_signature_is_worked_out_again(file: str) -> None:
    count = 0
    for golden in load(file):
        if golden.is_cut or "Signature" not in (golden.record["ext_fields"] or {}):
            continue
        command = decode_command(golden.frame())
        secret = SECRETS[command.ext_fields["AccessKey"]]
        if not is_signed(command.ext_fields, command.body, secret):
            assert file == "5.3.3-acl/acl_denied.jsonl", golden
            secret = "wrong"
        assert sign(content_of(command.ext_fields, command.body), secret) == command.ext_fields["Signature"], golden
        assert is_signed(command.ext_fields, command.body, secret)
        count += 1
    assert count


def test_all_releases_signed_something() -> None:
    assert {file.partition("/")[0] for file in SIGNED} >= {
        "4.9.7-json",
        "4.9.7-rocketmq",
        "5.3.3-json",
        "5.3.3-rocketmq",
        "5.3.3-acl",
        "4.9.7-client-5.3.3-broker",
        "5.3.3-client-4.9.7-broker",
    }


@pytest.mark.parametrize("case", [each for each in VECTORS["cases"] if each["case"] == "acl_sign"], ids=str)
def test_signatures_of_java(case: dict) -> None:
    assert sign(case["input"]["content"].encode(), case["input"]["secret"]) == case["output"]


@pytest.mark.parametrize("case", [each for each in VECTORS["cases"] if each["case"] == "acl_request"], ids=str)
def test_signed_requests_of_java(case: dict) -> None:
    given_input = case["input"]
    content = content_of(given_input["extFields"], (given_input["bodyUtf8"] or "").encode())
    assert content.hex() == case["output"]["contentHex"]
    assert sign(content, given_input["secret"]) == case["output"]["signature"]


def test_values_in_the_order_of_names_and_then_the_body() -> None:
    assert content_of({"b": "2", "A": "1", "Signature": "no", "a": "3"}, b"!") == b"132!"
    assert content_of({}) == b""


def test_java_sorts_by_utf16_units() -> None:
    """U+FF5E comes before U+1F600 by number, and after it by its units."""
    assert content_of({"～": "tilde", "\U0001f600": "smile"}) == b"smiletilde"


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), min_size=1), st.binary(max_size=20), st.text())
def test_threat_whatever_is_changed_breaks_the_signature(fields: dict[str, str], body: bytes, secret: str) -> None:
    fields.pop("Signature", None)
    signed = {**fields, "Signature": sign(content_of(fields, body), secret)}
    assert is_signed(signed, body, secret)
    assert not is_signed(signed, body + b"\x00", secret)
    assert not is_signed(signed, body, secret + "x")
    assert not is_signed({**signed, "\U0010ffff": "more"}, body, secret)
    assert not is_signed({**fields}, body, secret)
    assert not is_signed({**signed, "Signature": "é"}, body, secret)


def test_threat_secrets_are_not_shown() -> None:
    credentials = Credentials("me", "sesame", "token-1")
    assert repr(credentials) == "Credentials(access_key='me')"
