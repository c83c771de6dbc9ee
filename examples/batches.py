"""Many messages in few frames, each batch stored whole or not at all: `python -m examples.batches [NAMESRV TOPIC]`.

Without a name server the program starts a cluster of its own.
"""

from __future__ import annotations

import sys

from examples.servers import servers
from rocketpy import SendStatus
from rocketpy.sync import Message, Producer


def main() -> None:
    """Send a thousand messages, in batches that the broker takes."""
    namesrv, topic = (sys.argv[1], sys.argv[2]) if len(sys.argv) > 2 else (None, "Cakes")
    with servers(namesrv) as found, Producer("bakery", namesrv=found) as producer:
        producer.create_topic(topic, queues=2)
        cakes = [Message(topic, b"cake " * 2000, keys=[f"C-{number}"]) for number in range(1000)]
        parts = producer.batches(cakes, max_size=1024 * 1024)  # sends nothing, and looks at each of them
        for part in parts:
            result = producer.send_batch(part)
            if result.status is not SendStatus.SEND_OK:
                print(f"stored, but not as it should be: {result}")
        print(f"{len(cakes)} messages in {len(parts)} batches of up to {max(len(part) for part in parts)}")


if __name__ == "__main__":
    main()
