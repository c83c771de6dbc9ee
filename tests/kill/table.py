"""The table at the end of a kill loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.kill import deliveries
from tests.kill.campaign import Outcome
from tests.kill.verdict import Verdict


def table(outcome: Outcome, verdict: Verdict) -> str:
    """One line a figure."""
    history = outcome.history
    kinds = Counter(send.kind for send in history.sends)
    rows = [
        ("cycles: broker killed and restarted", len(outcome.restarts)),
        *_faults(outcome),
        ("acknowledged", kinds["ok"]),
        ("unknown", kinds["info"]),
        ("failed before they left", kinds["fail"]),
        ("deliveries", len(history.deliveries)),
        ("half messages taken", sum(kind == "taken" for kind in history.transactions.values())),
        ("producers asked about transactions", sum(history.asked.values())),
        ("timer messages", outcome.timed[0] if outcome.timed else 0),
        ("timer messages that came twice", outcome.timed[4] if outcome.timed else 0),
        ("log", f"{verdict.log_bytes / 2**20:.1f} MiB in {verdict.files} files"),
        ("lost", verdict.of("I1", "I2", "I9")),
        ("order violations", verdict.of("I4", "I8", "I10")),
        ("other violations", len(verdict.violations) - verdict.of("I1", "I2", "I4", "I8", "I9", "I10")),
        ("stuck", len(verdict.stuck)),
        *((f"duplicates after {cause}", count) for cause, count in deliveries.duplicates(history).most_common()),
        ("restart to serving, ms", _spread([each.serving for each in outcome.restarts])),
        ("restart to first ack, ms", _spread([each.first_ack for each in outcome.restarts])),
        ("seconds", f"{outcome.seconds:.1f}"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def _faults(outcome: Outcome) -> list[tuple[str, object]]:
    """What else was done to whom."""
    done = Counter((each.kind, each.target.split("-")[0]) for each in outcome.history.faults)
    rows: list[tuple[str, object]] = [
        (f"{who} killed and restarted", done["kill", name])
        for who, name in (("name server", "namesrv"), ("consumers", "consumer"), ("producers", "producer"))
    ]
    return [*rows, ("paused", f"broker {done['pause', 'broker']}, consumer {done['pause', 'consumer']}")]


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "none"
    p50, p99 = percentile(known, 0.5), percentile(known, 0.99)
    return f"p50 {p50:.0f}, p99 {p99:.0f}, max {max(known):.0f} ({len(known)} restarts)"
