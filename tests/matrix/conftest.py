"""One worker for all cells of the ways in, beside a cluster in a process of its own."""

from __future__ import annotations

import pytest

from tests.matrix.remote_cluster import remote_cluster
from tests.matrix.worker import Worker

TOPICS = {
    "Orders": 4,
    "Spare": 1,
    "Extra": 1,
    "Pulled": 2,
    "Watched": 1,
    "%RETRY%nobody": 1,
    "%RETRY%dead": 1,
    "%DLQ%dead": 1,
}


@pytest.fixture(scope="session")
def running_worker():
    """A worker with a cluster in a process of its own."""
    # Brokers ask about a transaction after a tenth of a second, and not again within a cell.
    checks = {"transaction_time_out": 100, "transaction_check_interval": 50}
    with remote_cluster(message_delay_level="1s 1s 1s 2s 2s", **checks) as cluster:
        for topic, queues in TOPICS.items():
            cluster.create_topic(topic, queues=queues)
        cluster.fill("Pulled", 6)
        worker = Worker(cluster)
        yield worker
        worker.close()
