"""Credentials of a sink are nowhere to be read: not in plans, not in Spark's logs and events, not in errors."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy_broker_sim import BlockingLocalCluster
from tests.spark.local_spark import ROOT
from tests.spark.secret_job import SENT, TALKATIVE, TOPIC

SECRETS = {
    "TEST_ACCESS_KEY": "aQ5-access-key-of-nobody-Hv8",
    "TEST_SECRET_KEY": "wK7-secret-key-of-nobody-Jx3",
    "TEST_SECURITY_TOKEN": "Zt9-security-token-of-nobody-Qm5",
}
LONG = 300.0


def disguises(secret: str) -> Iterator[bytes]:
    """How a secret may look to somebody who searches for it: as it is, in hex, and inside of Base64."""
    raw = secret.encode()
    yield raw
    yield raw.hex().encode()
    for shift in range(3):
        # Without the characters that its neighbours have a part in.
        encoded = base64.b64encode(b"\0" * shift + raw)
        yield encoded[4 if shift else 0 : -4]


def files_below(home: Path) -> Iterator[Path]:
    return (path for path in home.rglob("*") if path.is_file() and "jars" not in path.parts)


@pytest.mark.one_spark("it asks the search, without Spark")
def test_the_search_finds_what_it_searches_for() -> None:
    for before in (b"", b"x", b"xy"):
        hidden = base64.b64encode(before + b"the-secret-of-the-test" + b"more")
        assert any(each in hidden for each in disguises("the-secret-of-the-test"))
    assert not any(each in b"nothing of it" for each in disguises("the-secret-of-the-test"))


def test_secrets_are_nowhere_to_be_read(tmp_path: Path) -> None:
    with BlockingLocalCluster() as cluster:
        command = [sys.executable, "-m", "tests.spark.secret_job", str(tmp_path), cluster.name_server_addresses]
        environment = {**os.environ, **SECRETS}
        with (tmp_path / "said").open("wb") as said:
            code = subprocess.run(
                [*command, "local-cluster[1,2,1024]"], cwd=ROOT, env=environment, stdout=said, stderr=said, timeout=LONG
            ).returncode
        text = (tmp_path / "said").read_text("utf-8", "replace")
        assert code == 0, text[-8000:]
        assert "all of it was said" in text
        assert len(cluster.wait_messages(TOPIC, SENT)) == SENT
    assert text.count("rocketpy.RowError: row 1 of partition 0") >= 2
    searched = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in files_below(tmp_path)}
    assert any(name.startswith("events/") for name in searched)
    assert any(name.endswith("/stderr") and TALKATIVE.encode() in content for name, content in searched.items())
    assert b" TRACE " in searched["spark/spark.log"]
    found = [
        f"{name}: ...{content[max(content.index(each) - 200, 0) : content.index(each) + 100]!r}"
        for name, content in searched.items()
        for secret in SECRETS.values()
        for each in disguises(secret)
        if each in content
    ]
    assert found == []
