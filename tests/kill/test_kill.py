"""Thirty kills of a broker under load, with name servers, producers and consumers killed beside it."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.kill.content import MEMBERS, role_of
from tests.kill.loop import run
from tests.kill.plan import plan
from tests.kill.table import percentile, table
from tests.kill.verdict import judge

CYCLES, SEED = 30, 1
LEAST_ACKED = 10_000
LEAST_TIMED = 100
FIRST_ACK_WITHIN = 3_000.0
LOAD_OF_ITS_OWN = 2.0
"""Processes a core that want to run in a loop that has the machine for itself; a busier one may take longer."""


@pytest.mark.crash
@pytest.mark.slow
def test_nothing_acknowledged_is_lost_by_kills(tmp_path):
    servers, outcome = run(tmp_path, CYCLES, SEED, least_acked=LEAST_ACKED)
    verdict = judge(servers, outcome)
    text = table(outcome, verdict)
    print(text)
    assert not verdict.violations, text
    assert not verdict.stuck, text
    assert outcome.history.acked >= LEAST_ACKED
    assert outcome.timed[0] >= LEAST_TIMED
    firsts = [each.first_ack - each.waited for each in outcome.restarts if each.first_ack is not None]
    assert len(firsts) >= CYCLES // 3
    others = os.getloadavg()[0] / (LOAD_OF_ITS_OWN * (os.cpu_count() or 1))
    assert percentile(firsts, 0.99) <= FIRST_ACK_WITHIN * max(1.0, others)
    done = Counter((each.kind, each.target.split("-")[0]) for each in outcome.history.faults)
    assert done["kill", "broker"] == CYCLES
    assert [done["kill", who] for who in ("namesrv", "consumer", "producer")] == [5, 5, 5]
    killed = {role_of(each.target) for each in outcome.history.faults if each.kind == "kill"}
    assert killed >= set(MEMBERS)
    assert (done["pause", "broker"], done["pause", "consumer"]) == (1, 1)


def test_a_plan_is_the_seed():
    assert plan(30, 1) == plan(30, 1) != plan(30, 2)
    cycles = plan(30, 1)
    assert sum(each.after_acks > 0 for each in cycles) == 15
    assert Counter(each.also for each in cycles) == {
        "": 13,
        "name server": 5,
        "consumer": 5,
        "producer": 5,
        "pause broker": 1,
        "pause consumer": 1,
    }
