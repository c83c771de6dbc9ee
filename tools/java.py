"""The Java that tests and examples need, asked for before anything large is installed for them."""

from __future__ import annotations

from tools.asking import version_of
from tools.trouble import Trouble, say


def require_java(*, hard: bool) -> None:
    """Say clearly what is missing for the tests beside Apache's own servers, and for those with Spark.

    Raises:
        Trouble: something is missing, and `hard` says that these tests must run.
    """
    programs = {"java": ["java", "-version"], "javac": ["javac", "-version"], "mvn": ["mvn", "-version"]}
    missing = [name for name, command in programs.items() if version_of(*command) is None]
    if not missing:
        return
    text = (
        f"{', '.join(missing)} not found: the tests beside Apache RocketMQ need a JDK 17 and Maven,\n"
        "those with Spark need its java.\n"
        "On Debian and Ubuntu: apt-get install openjdk-17-jdk-headless maven"
    )
    if hard:
        raise Trouble(text)
    say(f"note: {text}\nThese tests are skipped now.")


def require_java_for_spark() -> None:
    """Refuse a machine without one before PySpark, which is 400 MB, is installed for nothing.

    Raises:
        Trouble: there is no Java, or too old a one.
    """
    from examples.spark_demo.java import NoSparkError, check_java

    try:
        check_java()
    except NoSparkError as error:
        raise Trouble(str(error)) from None
