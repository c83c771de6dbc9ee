"""The programs on the page about web frameworks, run with stand-ins for the frameworks, which are not installed here.

What a stand-in takes is what the programs use of the framework; nothing is said about the rest of it.
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rocketpy.sync import Message, PushConsumer
from rocketpy_broker_sim import BlockingLocalCluster
from tests.pages import DOCS

PAGE = (DOCS / "howto" / "web-frameworks.md").read_text("utf-8")
PROGRAMS = {name: text for text, name in re.findall(r"^```python\n(# (\S+)\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)}


class App:
    """FastAPI, Flask, Celery or one of its signals: whatever a program registers by a decorator."""

    def __init__(self, *_: object, **settings: Any) -> None:
        self.lifespan = settings.get("lifespan")
        self.state = SimpleNamespace()
        self.called: dict[str, Callable[..., Any]] = {}

    def post(self, path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return lambda function: self.called.setdefault(path, function)

    def connect(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self.called.setdefault("signal", function)

    def task(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return self.called.setdefault("task", function)


@pytest.fixture
def cluster() -> Iterator[BlockingLocalCluster]:
    with BlockingLocalCluster() as started:
        started.create_topic("Orders")
        yield started


@pytest.fixture
def load(cluster: BlockingLocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import one of the programs, as it stands on the page but for the address; the others can be imported by it."""
    for name, text in PROGRAMS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("127.0.0.1:9876", cluster.name_server_addresses), "utf-8")
        module = name.removesuffix(".py").replace("/", ".")
        for part in (module, module.partition(".")[0], "shop.management", "shop.management.commands"):
            monkeypatch.delitem(sys.modules, part, raising=False)
    settings = SimpleNamespace(ROCKETMQ_NAMESRV=cluster.name_server_addresses)
    for name, holds in {
        "fastapi": {"FastAPI": App, "Request": object},
        "flask": {"Flask": App},
        "django": {},
        "django.apps": {"AppConfig": object, "apps": SimpleNamespace()},
        "django.conf": {"settings": settings},
        "django.http": {"HttpRequest": object, "JsonResponse": dict},
        "django.core": {},
        "django.core.management": {},
        "django.core.management.base": {"BaseCommand": object},
        "celery": {"Celery": App},
        "celery.signals": {"worker_process_init": App(), "worker_process_shutdown": App()},
    }.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**holds))  # type: ignore[arg-type]
    monkeypatch.syspath_prepend(tmp_path)
    return lambda name: import_module(name.removesuffix(".py").replace("/", "."))


def keys(cluster: BlockingLocalCluster) -> list[tuple[str, ...]]:
    return [message.keys for message in cluster.messages("Orders")]


def test_there_is_a_program_for_each_framework() -> None:
    assert len(PROGRAMS) == PAGE.count("```python\n") == 8
    for name, text in PROGRAMS.items():
        compile(text, name, "exec")


def test_fastapi(load: Callable[[str], Any], cluster: BlockingLocalCluster) -> None:
    service = load("service.py")

    async def serve() -> dict[str, str]:
        request = SimpleNamespace(app=service.app)
        async with service.app.lifespan(service.app):
            answer = await service.app.called["/orders/{number}"]("42", request)
            await asyncio.to_thread(cluster.wait_consumed, "billing", "Orders")
        assert not service.app.state.producer.is_open
        return answer

    assert asyncio.run(serve())["message_id"] == cluster.messages("Orders")[0].message_id
    assert keys(cluster) == [("42",)]


def test_flask(load: Callable[[str], Any], cluster: BlockingLocalCluster) -> None:
    shop = load("shop_flask.py")
    shop.app.called["/orders/<number>"]("42")
    producer = shop.messaging.producer()
    shop.app.called["/orders/<number>"]("43")
    assert shop.messaging.producer() is producer
    shop.messaging.close()
    assert not producer.is_open
    assert sorted(keys(cluster)) == [("42",), ("43",)]


def test_django(load: Callable[[str], Any], cluster: BlockingLocalCluster) -> None:
    shop = load("shop/apps.py").ShopConfig()
    shop.ready()
    assert shop.messaging._producer is None
    views = load("shop/views.py")
    views.apps.get_app_config = {"shop": shop}.get
    assert list(views.order(object(), "42")) == ["message_id"]
    shop.messaging.close()
    assert keys(cluster) == [("42",)]


def test_a_command_of_django(
    load: Callable[[str], Any], cluster: BlockingLocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs in a thread here, and ends when its consumer is closed; signals are tested elsewhere."""
    consumers: list[PushConsumer] = []

    def kept(*arguments: Any, **settings: Any) -> PushConsumer:
        consumers.append(PushConsumer(*arguments, **settings))
        return consumers[-1]

    consume = load("shop/management/commands/consume.py")
    monkeypatch.setattr(consume, "PushConsumer", kept)
    cluster.send(Message("Orders", b"one coffee", keys=["42"]))
    thread = threading.Thread(target=consume.Command().handle)
    thread.start()
    cluster.wait_consumed("billing", "Orders")
    consumers[0].close()
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_celery(load: Callable[[str], Any], cluster: BlockingLocalCluster) -> None:
    tasks = load("tasks.py")
    assert tasks.messaging._producer is None
    tasks.worker_process_init.called["signal"](sender=None)
    producer = tasks.messaging._producer
    assert producer.is_open
    assert tasks.app.called["task"]("42") == cluster.messages("Orders")[0].message_id
    tasks.worker_process_shutdown.called["signal"](sender=None, pid=1, exitcode=0)
    assert not producer.is_open
    assert keys(cluster) == [("42",)]


def test_gunicorn(load: Callable[[str], Any], tmp_path: Path) -> None:
    hooks: dict[str, Any] = {}
    exec(compile((tmp_path / "gunicorn.conf.py").read_text("utf-8"), "gunicorn.conf.py", "exec"), hooks)
    hooks["post_worker_init"](None)
    producer = hooks["messaging"].producer()
    assert producer.is_open
    hooks["worker_exit"](None, None)
    assert not producer.is_open
