"""Which offset store a consumer uses: the user's `offset_store`, a file when broadcasting, otherwise the brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.consumer.offsets.local_file_offset_store import LocalFileOffsetStore, offset_file
from rocketpy.consumer.offsets.offset_storage import KeptOffsetStore
from rocketpy.consumer.offsets.offset_store import OffsetStore, RemoteBrokerOffsetStore
from rocketpy.results import MessageModel

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config.sharing import SharingConfig
    from rocketpy.consumer.user_calls import UserCalls

__all__ = ["offset_store_of"]


def offset_store_of(client: MQClientInstance, config: SharingConfig, calls: UserCalls) -> OffsetStore:
    """Make the offset store of a consumer; it is not open yet.

    Args:
        client: how to reach brokers.
        config: the consumer's settings.
        calls: calls the methods of a user's `offset_store`.

    Raises:
        ConfigError: the settings do not give a usable path for a file.
    """
    storage = config.offset_store
    if storage is None:
        if config.message_model is not MessageModel.BROADCASTING:
            return RemoteBrokerOffsetStore(client, config.group)
        storage = LocalFileOffsetStore(offset_file(config, client.network.local_ip()))
    return KeptOffsetStore(storage, config.group, calls, timeout=client.config.request_timeout)
