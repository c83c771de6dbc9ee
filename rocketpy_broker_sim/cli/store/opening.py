"""From the options of a command to the store that it looks into."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocketpy.errors import ConfigError
from rocketpy_broker_sim.cli.logs import log
from rocketpy_broker_sim.cli.options import text_of_file
from rocketpy_broker_sim.config import read_broker_properties
from rocketpy_broker_sim.store.inspect.layout import StoreLayout, open_layout
from rocketpy_broker_sim.store.inspect.read_only import ReadOnlyStorage
from rocketpy_broker_sim.store.log import commit_log

if TYPE_CHECKING:
    import argparse

    from rocketpy_broker_sim.config import MessageStoreConfig

__all__ = ["mounts_of", "opened_store", "settings_of"]


def settings_of(options: argparse.Namespace) -> MessageStoreConfig | None:
    """The settings of -c; None without: a file that happens to lie beside the store is not read.

    Raises:
        ConfigError: The file cannot be read, or says what cannot be.
    """
    if options.configFile is None:
        return None
    config, warnings = read_broker_properties(text_of_file(options.configFile), options.configFile, serves=False)
    for warning in warnings:
        log.warning("%s", warning)
    return config.store


def mounts_of(directory: str, config: MessageStoreConfig | None, *, writes: bool = False) -> dict[str, str]:
    """Where the commit log lies when it lies elsewhere; a copy that holds it itself wins over the settings.

    Args:
        directory: The directory of the store.
        config: The settings of its broker, if there are any.
        writes: Whether the store is going to be changed: then nothing is guessed.

    Raises:
        ConfigError: There are two logs, and the store is going to be changed.
    """
    if config is None or not config.store_path_commit_log:
        return {}
    inside, elsewhere = os.path.join(directory, commit_log.FOLDER), os.path.expanduser(config.store_path_commit_log)
    if not os.path.isdir(inside):
        return {commit_log.FOLDER: elsewhere}
    if os.path.isdir(elsewhere) and not os.path.samefile(inside, elsewhere):
        if writes:
            raise ConfigError(
                f"there are two logs, {inside} and {elsewhere} (storePathCommitLog): move away the one that is not the "
                "broker's, or leave the setting out"
            )
        log.warning("there is a log in %s too (storePathCommitLog), this is the one in %s", elsewhere, inside)
    return {}


@contextmanager
def opened_store(options: argparse.Namespace, *, writes: bool = False) -> Iterator[StoreLayout]:
    """The store of a command, for reading.

    Args:
        options: Of the command.
        writes: Whether the store is going to be changed by what is read here.

    Raises:
        ConfigError: There is no store, or its settings cannot be read.
        StoreError: It cannot be read.
    """
    config = settings_of(options)
    directory = os.path.expanduser(options.directory)
    layout = open_layout(ReadOnlyStorage(directory, mounts=mounts_of(directory, config, writes=writes)), config)
    try:
        yield layout
    finally:
        layout.close()
