"""Bodies that our producer packed with lz4 and zstd, unpacked by Apache's consumer. The 4.x line knows zlib only."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

import rocketpy.sync
from rocketpy import Message
from tests.interop.drivers import java_push_consumer

if TYPE_CHECKING:
    from tests.interop.apache import Apache, Cluster

pytestmark = [pytest.mark.interop, pytest.mark.one_line("5.3.3")]

TOPIC = "Packed-by-python"
BODIES = [b"all work and no play " * 300, bytes(range(256)) * 8000]
"""Small enough for one block of the usual 64 KiB, and far larger."""


def test_every_kind_is_unpacked_by_apaches_consumer(apache: Apache, apache_cluster: Cluster) -> None:
    apache_cluster.create_topic(TOPIC)
    namesrv = apache_cluster.namesrv
    with java_push_consumer(apache, namesrv, "packed-by-python", TOPIC) as consumer:
        for kind in ("LZ4", "ZSTD", "ZLIB"):
            with rocketpy.sync.Producer("packers", namesrv=namesrv, send_timeout=10.0, compress_type=kind) as producer:
                for number, body in enumerate(BODIES):
                    producer.send(Message(TOPIC, body, keys=f"{kind}-{number}"))
        got = {each["keys"]: base64.b64decode(each["body"]) for each in consumer.wait_messages(6)}
    assert got == {f"{kind}-{n}": body for kind in ("LZ4", "ZSTD", "ZLIB") for n, body in enumerate(BODIES)}
