"""What mypy has to say about wrong settings: every line here is wrong, and says so by `type: ignore`.

Nothing runs this. `./dev check` gives it to mypy, which complains where an ignored error is none any more, because its
strict mode warns of each `type: ignore` that is not needed. The first function is right, and has nothing to ignore.
"""

from __future__ import annotations

import rocketpy
import rocketpy.aio
import rocketpy.sync
from rocketpy import LocalTransactionState, MessageExt
from rocketpy.config.typed import ProducerSettings, TransactionProducerSettings
from rocketpy_broker_sim import AsyncioLocalCluster, BlockingLocalCluster, LocalCluster
from rocketpy_broker_sim.config import FlushDiskType


def check(half: MessageExt) -> LocalTransactionState:
    return LocalTransactionState.UNKNOWN


def right() -> None:
    settings: ProducerSettings = {"namesrv": ["localhost:9876"], "send_timeout": 2, "compress_type": "lz4"}
    rocketpy.Producer("orders", **settings)
    rocketpy.sync.Producer("orders", **settings)
    more: TransactionProducerSettings = {"send_timeout": 2, "topics": ["orders"]}
    rocketpy.aio.TransactionProducer("orders", checker=check, **more)
    rocketpy.PushConsumer("billing", message_model="broadcasting", on_assigned=print)
    LocalCluster(2, flush_disk_type=FlushDiskType.SYNC_FLUSH, max_message_size=100)
    BlockingLocalCluster(flush_disk_type="SYNC_FLUSH", auto_create_topic_enable=False)


async def wrong_trio() -> None:
    rocketpy.MQClientInstance(nosuch=1)  # type: ignore[call-arg]
    rocketpy.MQClientInstance(request_timeout="3")  # type: ignore[arg-type]
    rocketpy.Producer("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.Producer("group", send_timeout="3")  # type: ignore[arg-type]
    rocketpy.PushConsumer("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.PushConsumer("group", consume_timeout="3")  # type: ignore[arg-type]
    rocketpy.LitePullConsumer("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.LitePullConsumer("group", poll_timeout="3")  # type: ignore[arg-type]
    rocketpy.PullConsumer("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.PullConsumer("group", consumer_pull_timeout="3")  # type: ignore[arg-type]
    rocketpy.Admin(nosuch=1)  # type: ignore[call-arg]
    rocketpy.Admin(request_timeout="3")  # type: ignore[arg-type]
    rocketpy.TransactionProducer("group", checker=check, nosuch=1)  # type: ignore[call-arg]
    rocketpy.TransactionProducer("group", checker=check, topics=1)  # type: ignore[arg-type]
    await rocketpy.replay_dead_letters("group", nosuch=1)  # type: ignore[call-arg]
    await rocketpy.replay_dead_letters("group", namesrv=9876)  # type: ignore[arg-type]


def wrong_blocking() -> None:
    rocketpy.sync.MQClientInstance(nosuch=1)  # type: ignore[call-arg]
    rocketpy.sync.MQClientInstance(request_timeout="3")  # type: ignore[arg-type]
    rocketpy.sync.Producer("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.sync.Producer("group", send_timeout="3")  # type: ignore[arg-type]
    rocketpy.sync.PushConsumer("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.sync.PushConsumer("group", consume_timeout="3")  # type: ignore[arg-type]
    rocketpy.sync.LitePullConsumer("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.sync.LitePullConsumer("group", poll_timeout="3")  # type: ignore[arg-type]
    rocketpy.sync.PullConsumer("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.sync.PullConsumer("group", consumer_pull_timeout="3")  # type: ignore[arg-type]
    rocketpy.sync.Admin(nosuch=1)  # type: ignore[call-arg]
    rocketpy.sync.Admin().topics.create("topic", queues="3")  # type: ignore[arg-type]
    rocketpy.sync.TransactionProducer("group", checker=check, nosuch=1)  # type: ignore[call-arg]
    rocketpy.sync.TransactionProducer("group", checker=check, topics=1)  # type: ignore[arg-type]
    rocketpy.sync.replay_dead_letters("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.sync.replay_dead_letters("group", namesrv=9876)  # type: ignore[arg-type]


async def wrong_asyncio() -> None:
    rocketpy.aio.MQClientInstance(nosuch=1)  # type: ignore[call-arg]
    rocketpy.aio.MQClientInstance(request_timeout="3")  # type: ignore[arg-type]
    rocketpy.aio.Producer("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.aio.Producer("group", send_timeout="3")  # type: ignore[arg-type]
    rocketpy.aio.PushConsumer("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.aio.PushConsumer("group", consume_timeout="3")  # type: ignore[arg-type]
    rocketpy.aio.LitePullConsumer("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.aio.LitePullConsumer("group", poll_timeout="3")  # type: ignore[arg-type]
    rocketpy.aio.PullConsumer("group", nosuch=1)  # type: ignore[call-arg]
    rocketpy.aio.PullConsumer("group", consumer_pull_timeout="3")  # type: ignore[arg-type]
    rocketpy.aio.Admin(nosuch=1)  # type: ignore[call-arg]
    await rocketpy.aio.Admin().topics.create("topic", queues="3")  # type: ignore[arg-type]
    rocketpy.aio.TransactionProducer("group", checker=check, nosuch=1)  # type: ignore[call-arg]
    rocketpy.aio.TransactionProducer("group", checker=check, topics=1)  # type: ignore[arg-type]
    await rocketpy.aio.replay_dead_letters("group", nosuch=1)  # type: ignore[call-arg]
    await rocketpy.aio.replay_dead_letters("group", namesrv=9876)  # type: ignore[arg-type]


def wrong_clusters() -> None:
    LocalCluster(nosuch=1)  # type: ignore[call-arg]
    LocalCluster(auto_create_topic_enable="no")  # type: ignore[arg-type]
    LocalCluster(listen_port=1)  # type: ignore[call-arg]
    BlockingLocalCluster(nosuch=1)  # type: ignore[call-arg]
    BlockingLocalCluster(auto_create_topic_enable="no")  # type: ignore[arg-type]
    BlockingLocalCluster(listen_port=1)  # type: ignore[call-arg]
    AsyncioLocalCluster(nosuch=1)  # type: ignore[call-arg]
    AsyncioLocalCluster(auto_create_topic_enable="no")  # type: ignore[arg-type]
    AsyncioLocalCluster(listen_port=1)  # type: ignore[call-arg]
