"""What to tell of a send whose attempts all failed. Pure."""

from __future__ import annotations

from rocketpy.errors import RocketMQError, SendAttempt, SendError

__all__ = ["verdict"]


def verdict(topic: str, attempts: list[SendAttempt]) -> RocketMQError:
    """The error of a send whose attempts all failed: the error itself when there was one attempt, else all of them."""
    last = attempts[-1].error
    if len(attempts) == 1:
        return last
    error = SendError(
        f"a message for {topic} was not acknowledged in {len(attempts)} attempts: {_told(attempts)}", attempts=attempts
    )
    if all(attempt.error.nothing_sent for attempt in attempts):
        error.nothing_sent = True
    error.__cause__ = last
    return error


def _told(attempts: list[SendAttempt]) -> str:
    """What came of attempts, those that came to the same told once."""
    alike: dict[tuple[str, str | None, str], list[SendAttempt]] = {}
    for attempt in attempts:
        alike.setdefault((attempt.broker_name, attempt.address, str(attempt.error)), []).append(attempt)
    return "; ".join(_told_once(tries) for tries in alike.values())


def _told_once(tries: list[SendAttempt]) -> str:
    first = tries[0]
    after = ", ".join(f"{each.elapsed * 1000:.0f}" for each in tries)
    return f"<{first.broker_name} at {first.address} after {after} ms: {first.error}>"
