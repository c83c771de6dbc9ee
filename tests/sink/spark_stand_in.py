"""A Spark of a few lines: runs the tasks of a frame one after the other, and can have any of them fail."""

from __future__ import annotations

import itertools
import pickle

from rocketpy.spark import counts, task
from rocketpy.spark.delivery import marker_log, partition_counts

_attempts = itertools.count()
ROWS = 60


def part(partition, rows=ROWS):
    """The rows of a partition: values and keys."""
    return [(b"%d-%d" % (partition, number), f"k{partition}-{number}") for number in range(rows)]


class Died(Exception):
    """A task, or the driver, is gone."""


class Context:
    """What Spark says to a task."""

    def __init__(self, partition, attempt):
        self._partition, self._attempt, self._id = partition, attempt, next(_attempts)

    def stageId(self):
        return 1

    def partitionId(self):
        return self._partition

    def taskAttemptId(self):
        return self._id

    def attemptNumber(self):
        return self._attempt


class Session:
    """What a frame says of the query and of the settings of Spark."""

    def __init__(self, query, run, conf):
        self._properties = {"sql.streaming.queryId": query, "spark.jobGroup.id": run}
        self.sparkContext = self
        self.conf = self
        self._conf = conf

    def getLocalProperty(self, name):
        return self._properties[name]

    def get(self, name, default=None):
        return self._conf.get(name, default)


class Spark:
    """Makes frames.

    Args:
        monkeypatch: of pytest.
    """

    def __init__(self, monkeypatch):
        self._monkeypatch = monkeypatch
        self.conf = {}
        for module in (counts, task, partition_counts):
            monkeypatch.setattr(module, "active_context", lambda: None)
        monkeypatch.setattr(task, "_is_remote", lambda: False)
        self.enter(None)

    def enter(self, context):
        """Be in a task from here on; None for the driver."""
        self._monkeypatch.setattr(task, "_task_context", lambda: context)

    def frame(self, *parts, query="query-1", run="run-1", dies=None, attempts=2):
        """A frame with some partitions.

        Args:
            parts: the rows of each partition.
            query: the id of the query.
            run: the id of its run.
            dies: at which row of which partition the first attempt of a task dies; a number of rows is behind the last.
            attempts: how often a task is tried.
        """
        return Frame(self, parts, Session(query, run, self.conf), dies, attempts)

    def restart(self):
        """Forget what the process has read, as one that was started again."""
        marker_log._logs.clear()


class Frame:
    """A DataFrame."""

    def __init__(self, spark, parts, session, dies, attempts):
        self._spark, self._parts, self._dies, self._attempts = spark, parts, dies, attempts
        self.sparkSession = session

    def foreachPartition(self, function):
        pickled = pickle.dumps(function)
        for partition, rows in enumerate(self._parts):
            self._run(pickled, partition, rows)
        self._spark.enter(None)

    def _run(self, pickled, partition, rows):
        for attempt in range(self._attempts):
            self._spark.enter(Context(partition, attempt))
            try:
                return pickle.loads(pickled)(self._rows(partition, rows, attempt))
            except Died:
                if attempt + 1 == self._attempts:
                    self._spark.enter(None)
                    raise

    def _rows(self, partition, rows, attempt):
        for number, row in enumerate(rows):
            if (partition, number) == self._dies and attempt == 0:
                raise Died
            yield row
        if (partition, len(rows)) == self._dies and attempt == 0:
            raise Died
