"""Spark beside the sinks: every test here starts a JVM or shares the one that the first started."""
