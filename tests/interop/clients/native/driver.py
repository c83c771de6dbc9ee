"""Drives the C++ client through the C face of `librocketmq.so`: run with the wheel of `rocketmq` on PYTHONPATH.

`produce` sends in every way that is named and ends; `consume` prints what is delivered until the end of standard
input. Each prints one JSON object a line, its first key `event`.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import sys
import threading
import time
from collections import Counter
from typing import Any

SHOP = "nördlich"
LARGE = 20_000
ACCEPTED, LATER = 0, 1
ANSWERS_WITHIN = 30.0

ffi: Any = importlib.import_module("rocketmq.ffi")
dll: Any = ffi.dll
_said = threading.Lock()


def say(event: str, **keys: object) -> None:
    """Print an event; listeners run on threads of the client."""
    with _said:
        sys.stdout.write(json.dumps({"event": event, **keys}) + "\n")
        sys.stdout.flush()


def check(status: int) -> None:
    """Raise what the client says of a call that failed."""
    if status != 0:
        raise RuntimeError(f"status {status}: {dll.GetLatestErrorMessage().decode(errors='replace')}")


def body_of(way: str, number: int) -> str:
    """The body of a message; the large ones are compressed by the client."""
    return f"{way}-{number}".ljust(LARGE, ".") if way == "large" else f"{way}-{number}"


class Producer:
    """A producer and the ways in which it sends."""

    def __init__(self, namesrv: str, group: str, topic: str) -> None:
        self._topic = topic.encode()
        self._handle = dll.CreateProducer(group.encode())
        check(dll.SetProducerNameServerAddress(self._handle, namesrv.encode()))
        check(dll.StartProducer(self._handle))

    def close(self) -> None:
        """End it in order."""
        check(dll.ShutdownProducer(self._handle))
        check(dll.DestroyProducer(self._handle))

    def send(self, way: str, count: int) -> None:
        """Send so many messages in one way."""
        messages = [self._message(way, number) for number in range(count)]
        sending = {"batch": self._batch, "async": self._soon, "oneway": self._oneway, "ordered": self._ordered}
        sending.get(way, self._sync)(way, messages)
        for each in messages:
            check(dll.DestroyMessage(each))

    def _message(self, way: str, number: int) -> Any:
        message = dll.CreateMessage(self._topic)
        check(dll.SetMessageBody(message, body_of(way, number).encode()))
        check(dll.SetMessageTags(message, way.encode()))
        check(dll.SetMessageKeys(message, f"key-{way}-{number}".encode()))
        check(dll.SetMessageProperty(message, b"shop", SHOP.encode()))
        if way == "delayed":
            check(dll.SetDelayTimeLevel(message, 1))
        return message

    def _sync(self, way: str, messages: list[Any]) -> None:
        for each in messages:
            result = ffi._CSendResult()
            check(dll.SendMessageSync(self._handle, each, ctypes.pointer(result)))
            self._told(way, result)

    def _batch(self, way: str, messages: list[Any]) -> None:
        batch = dll.CreateBatchMessage()
        for each in messages:
            check(dll.AddMessage(batch, each))
        result = ffi._CSendResult()
        check(dll.SendBatchMessage(self._handle, batch, ctypes.pointer(result)))
        self._told(way, result)

    def _oneway(self, way: str, messages: list[Any]) -> None:
        for each in messages:
            check(dll.SendMessageOneway(self._handle, each))

    def _soon(self, way: str, messages: list[Any]) -> None:
        answers = threading.Semaphore(0)

        def acknowledged(result: Any) -> None:
            self._told(way, result.contents)
            answers.release()

        def failed(error: Any) -> None:
            say("failed", way=way, error=error.msg.decode(errors="replace"))
            answers.release()

        callbacks = ffi.SEND_SUCCESS_CALLBACK(acknowledged), ffi.SEND_EXCEPTION_CALLBACK(failed)
        for each in messages:
            check(dll.SendMessageAsync(self._handle, each, *callbacks))
        for _ in messages:
            if not answers.acquire(timeout=ANSWERS_WITHIN):
                raise RuntimeError("an asynchronous send was neither acknowledged nor refused")

    def _ordered(self, way: str, messages: list[Any]) -> None:
        last_queue = ffi.QUEUE_SELECTOR_CALLBACK(lambda queues, message, argument: queues - 1)
        argument = ctypes.cast(ctypes.pointer(ctypes.c_int(0)), ctypes.c_void_p)  # it takes no null pointer
        for each in messages:
            result = ffi._CSendResult()
            check(dll.SendMessageOrderly(self._handle, each, last_queue, argument, 0, ctypes.pointer(result)))
            self._told(way, result)

    def _told(self, way: str, result: Any) -> None:
        say("sent", way=way, status=result.sendStatus, msgId=result.msgId.decode(), queueOffset=result.offset)


class Consumer:
    """A push consumer that tells what it is given."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._fail_first: int = options.fail_first
        self._linger: float = options.linger / 1000
        self._deliveries: Counter[str] = Counter()
        self._handle = dll.CreatePushConsumer(options.group.encode())
        check(dll.SetPushConsumerNameServerAddress(self._handle, options.namesrv.encode()))
        check(dll.SetPushConsumerMessageModel(self._handle, ffi.MessageModel.CLUSTERING))
        if options.linger:
            check(dll.SetPushConsumerThreadCount(self._handle, 1))
        check(dll.Subscribe(self._handle, options.topic.encode(), options.tags.encode()))
        self._callback = ffi.MSG_CALLBACK_FUNC(self._take)
        check(dll.RegisterMessageCallback(self._handle, self._callback))
        check(dll.StartPushConsumer(self._handle))

    def close(self) -> None:
        """End it in order."""
        check(dll.ShutdownPushConsumer(self._handle))
        check(dll.DestroyPushConsumer(self._handle))

    def _take(self, consumer: object, message: Any) -> int:
        # What one pull brought is one batch, whatever SetPushConsumerMessageBatchMaxSize says: when one message of it
        # fails all come again, those behind it unseen.
        body = dll.GetMessageBody(message).decode()
        self._deliveries[body] += 1
        accepted = self._deliveries[body] > self._fail_first
        say(
            "message",
            body=body,
            topic=dll.GetMessageTopic(message).decode(),
            tags=dll.GetMessageTags(message).decode(),
            keys=dll.GetMessageKeys(message).decode(),
            shop=dll.GetMessageProperty(message, b"shop").decode(),
            queueId=dll.GetMessageQueueId(message),
            queueOffset=dll.GetMessageQueueOffset(message),
            reconsumeTimes=dll.GetMessageReconsumeTimes(message),
            bornTimestamp=dll.GetMessageBornTimestamp(message),
            storeTimestamp=dll.GetMessageStoreTimestamp(message),
            accepted=accepted,
        )
        time.sleep(self._linger)
        return ACCEPTED if accepted else LATER


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=("produce", "consume"))
    for name in ("namesrv", "group", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--ways", default="")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--tags", default="*")
    parser.add_argument("--fail-first", type=int, default=0)
    parser.add_argument("--linger", type=int, default=0)
    options = parser.parse_args()
    if options.work == "produce":
        producer = Producer(options.namesrv, options.group, options.topic)
        for way in options.ways.split(","):
            producer.send(way, options.count)
        say("done")
        producer.close()
    else:
        consumer = Consumer(options)
        say("ready")
        sys.stdin.read()
        consumer.close()
        say("stopped")


if __name__ == "__main__":
    main()
