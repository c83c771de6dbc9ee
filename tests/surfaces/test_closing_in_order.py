"""Closing, exits and forks while sends go over data connections: what is under way is waited for, and nothing hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import rocketpy.aio
import rocketpy.sync
from rocketpy import Message
from rocketpy.errors import ClientClosedError, ConfigError
from rocketpy_broker_sim import BlockingLocalCluster
from tests.aio.running import in_asyncio
from tests.forking import in_child
from tests.ways_out.proxy import Proxy

PATIENCE = 10.0


@pytest.fixture(scope="module")
def cluster():
    with BlockingLocalCluster() as running:
        yield running
