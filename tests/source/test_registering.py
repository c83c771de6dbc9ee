"""What Spark finds by its name, and what is said where there is no such thing."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import pyspark_rocketmq
import rocketpy.spark
from rocketpy.errors import ConfigError


def test_without_data_sources_in_python(monkeypatch):
    monkeypatch.setattr(pyspark_rocketmq, "DefaultSource", None)
    with pytest.raises(ConfigError, match=r"needs PySpark 4\.0"):
        rocketpy.spark.register(None)


def test_looking_it_up_imports_nothing_that_could_fail():
    program = """
        import sys
        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("rocketpy", "trio", "attrs", "pyarrow"):
                    raise AssertionError(name)
        sys.meta_path.insert(0, Refuse())
        import pyspark_rocketmq
        source = pyspark_rocketmq.DefaultSource
        print("none" if source is None else source.name())
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() in ("none", "rocketmq"), ran.stderr
