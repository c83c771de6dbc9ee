"""One worker for all cells of the ways in, beside a cluster in a process of its own."""

from __future__ import annotations

import pytest

from tests.matrix.remote_cluster import remote_cluster
from tests.matrix.worker import Worker


@pytest.fixture(scope="session")
def running_worker():
    """A worker with a cluster in a process of its own."""
    with remote_cluster(message_delay_level="1s 1s 1s 2s 2s") as cluster:
        for topic in (
            "Orders",
            "Heard",
            "Awaited",
            "Spare",
            "%RETRY%nobody",
        ):
            cluster.create_topic(topic)
        worker = Worker(cluster)
        yield worker
        worker.close()
