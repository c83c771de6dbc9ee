"""Completes the reference of each surface: what a call takes, returns and raises, and a short example.

The surfaces have the same calls, and the trio docstring says in full what each takes and raises. The pages of the
blocking and the asyncio surface show that too, where the docstring of the surface does not say it itself. Examples
stand here once; `call()` in one becomes an awaited call wherever it is a coroutine function on the surface.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import rocketpy
import rocketpy.aio
import rocketpy.sync

SURFACES = {"rocketpy.sync": rocketpy.sync, "rocketpy.aio": rocketpy.aio, "rocketpy": rocketpy}
SECTIONS = ("Args:", "Returns:", "Yields:", "Raises:")

EXAMPLES = {
    "Producer.send": 'result = producer.send(Message("Orders", "one espresso", keys=["42"]), timeout=3)',
    "Producer.send_soon": 'future = producer.send_soon(Message("Orders", "one espresso"))',
    "Producer.send_oneway": 'producer.send_oneway(Message("Clicks", "/menu"))',
    "Producer.send_batch": 'result = producer.send_batch([Message("Orders", "one"), Message("Orders", "two")])',
    "Producer.send_many": 'result = producer.send_many(Message("Orders", line) for line in lines)',
    "Producer.batches": "batches = producer.batches(messages)",
    "Producer.request": 'reply = producer.request(Message("Prices", "espresso"), timeout=2)',
    "Producer.request_soon": 'future = producer.request_soon(Message("Prices", "espresso"), timeout=2)',
    "Producer.recall": 'producer.recall("Orders", result.recall_handle)',
    "Producer.queues": 'queues = producer.queues("Orders")',
    "Producer.create_topic": 'producer.create_topic("Orders", queues=8)',
    "Producer.admin": "admin = producer.admin()",
    "Producer.statistics": "print(producer.statistics().latency)",
    "TransactionProducer.send_in_transaction": (
        'result = producer.send_in_transaction(Message("Orders", "one espresso"), book, arg=order)'
    ),
    "TransactionProducer.check_statistics": "print(producer.check_statistics())",
    "PushConsumer.subscribe": 'consumer.subscribe("Orders", on_order, tags="created || paid")',
    "PushConsumer.unsubscribe": 'consumer.unsubscribe("Orders")',
    "PushConsumer.pause": 'consumer.pause("Orders")',
    "PushConsumer.resume": 'consumer.resume("Orders")',
    "PushConsumer.set_consume_thread_max": "consumer.set_consume_thread_max(64)",
    "PushConsumer.commit": "consumer.commit(timeout=5)",
    "PushConsumer.lag": "behind = sum(consumer.lag().values())",
    "PushConsumer.wait_assigned": "queues = consumer.wait_assigned(timeout=10)",
    "PushConsumer.admin": "admin = consumer.admin()",
    "PushConsumer.run_forever": "consumer.run_forever()",
    "PushConsumer.status": "print(consumer.status().errors)",
    "PushConsumer.statistics": "print(consumer.statistics().consumed_per_second)",
    "LitePullConsumer.subscribe": 'consumer.subscribe("Orders", tags="created || paid")',
    "LitePullConsumer.unsubscribe": 'consumer.unsubscribe("Orders")',
    "LitePullConsumer.assign": "consumer.assign(queues)",
    "LitePullConsumer.on_queues_changed": 'consumer.on_queues_changed("Orders", print)',
    "LitePullConsumer.poll": "messages = consumer.poll(100, timeout=1)",
    "LitePullConsumer.commit": "consumer.commit(timeout=5)",
    "LitePullConsumer.commit_soon": "consumer.commit_soon()",
    "LitePullConsumer.ack": "consumer.ack(message)",
    "LitePullConsumer.position": "offset = consumer.position(queue)",
    "LitePullConsumer.committed": "offset = consumer.committed(queue)",
    "LitePullConsumer.lag": "behind = sum(consumer.lag().values())",
    "LitePullConsumer.seek": "consumer.seek(queue, 1000)",
    "LitePullConsumer.seek_to_begin": "consumer.seek_to_begin(queue)",
    "LitePullConsumer.seek_to_end": "consumer.seek_to_end(queue)",
    "LitePullConsumer.seek_to_timestamp": "consumer.seek_to_timestamp(queue, yesterday)",
    "LitePullConsumer.pause": "consumer.pause([queue])",
    "LitePullConsumer.resume": "consumer.resume([queue])",
    "LitePullConsumer.wait_assigned": "queues = consumer.wait_assigned(timeout=10)",
    "LitePullConsumer.fetch_message_queues": 'queues = consumer.fetch_message_queues("Orders")',
    "LitePullConsumer.beginning_offset": "first = consumer.beginning_offset(queue)",
    "LitePullConsumer.end_offset": "end = consumer.end_offset(queue)",
    "LitePullConsumer.offset_for_timestamp": "offset = consumer.offset_for_timestamp(queue, yesterday)",
    "LitePullConsumer.admin": "admin = consumer.admin()",
    "LitePullConsumer.status": "print(consumer.status().queues)",
    "LitePullConsumer.statistics": "print(consumer.statistics())",
    "PullConsumer.fetch_message_queues": 'queues = consumer.fetch_message_queues("Orders")',
    "PullConsumer.pull": "result = consumer.pull(queue, offset, max_messages=32)",
    "PullConsumer.pull_block_if_not_found": "result = consumer.pull_block_if_not_found(queue, offset)",
    "PullConsumer.fetch_consume_offset": "offset = consumer.fetch_consume_offset(queue)",
    "PullConsumer.update_consume_offset": "consumer.update_consume_offset(queue, result.next_begin_offset)",
    "PullConsumer.beginning_offset": "first = consumer.beginning_offset(queue)",
    "PullConsumer.end_offset": "end = consumer.end_offset(queue)",
    "PullConsumer.offset_for_timestamp": "offset = consumer.offset_for_timestamp(queue, yesterday)",
    "PullConsumer.admin": "admin = consumer.admin()",
    "PullConsumer.statistics": "print(consumer.statistics())",
    "MQClientInstance.statistics": "print(client.statistics().peers)",
}
_CALL = re.compile(r"(?P<call>(producer|consumer|client)\.(?P<name>\w+)\()")


def setup(app: Any) -> dict[str, bool]:
    for name in {each.partition(".")[0] for each in EXAMPLES}:
        without_surface(getattr(rocketpy, name))
    app.connect("autodoc-process-docstring", complete, priority=400)  # before napoleon reads the sections
    return {"parallel_read_safe": True}


def without_surface(kind: Any) -> None:
    """Leave out the argument that the two other surfaces alone pass."""
    found = inspect.signature(kind.__init__)
    shown = [each for each in found.parameters.values() if each.name != "_surface"]
    kind.__init__.__signature__ = found.replace(parameters=shown)


def complete(_app: Any, what: str, name: str, found: Any, _options: Any, lines: list[str]) -> None:
    """Add to a method's docstring what the page would lack."""
    if what == "method":
        lines[:] = completed(name, found, lines)


def completed(name: str, found: Any, lines: list[str]) -> list[str]:
    """The lines of the docstring of `name`, such as rocketpy.sync.Producer.send, and what they lack."""
    surface, kind, call = parts_of(name)
    if surface is None:
        return lines
    made = list(lines)
    trio = getattr(getattr(rocketpy, kind, None), call, None)
    for section, text in sections_of(inspect.getdoc(trio) or "").items():
        if section not in made and surface is not rocketpy:
            made += ["", section, *text]
    example = example_of(kind, call, found)
    if example is not None:
        made += ["", "Example::", "", f"    {example}", ""]
    return made


def parts_of(name: str) -> tuple[Any, str, str]:
    """The surface, the class and the method of a full name; no surface where it is not one of theirs."""
    module, _, rest = name.rpartition(".")
    module, _, kind = module.rpartition(".")
    return SURFACES.get(module), kind, rest


def sections_of(doc: str) -> dict[str, list[str]]:
    """The sections of a Google docstring, each with its indented lines."""
    found: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in doc.splitlines():
        if line in SECTIONS:
            lines = found[line] = []
        elif lines is not None and line and not line.startswith(" "):
            lines = None
        elif lines is not None and line:
            lines.append(line)
    return found


def example_of(kind: str, call: str, found: Any) -> str | None:
    """The example of a method on the surface that `found` belongs to."""
    bases = (kind, "Producer") if kind == "TransactionProducer" else (kind,)
    text = next((EXAMPLES[f"{base}.{call}"] for base in bases if f"{base}.{call}" in EXAMPLES), None)
    if text is None:
        return None
    awaited = inspect.iscoroutinefunction(found)
    text = _CALL.sub(lambda match: f"await {match['call']}" if awaited and match["name"] == call else match[0], text)
    return text.replace("sum(await consumer.lag().values())", "sum((await consumer.lag()).values())")
