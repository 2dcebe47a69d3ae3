"""What Spark raises, as it raises it, in a sentence."""

from __future__ import annotations

import pytest

from kafkafs.spark.errors import JobError
from kafkafs.spark.failures import first_line, is_of_starting, is_sparks, missing_package, ours, startup_reason

WORKER = """Job aborted due to stage failure: Task 1 in stage 3.0 failed 1 times, most recent failure: Lost task 1.0: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/kafkafs/segment.py", line 1, in read
storage.errors.FramingError: inner (/a/0.log, position 7)

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/worker.py", line 3, in main
{last}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
Driver stacktrace:"""


class FromSpark(Exception):  # noqa: N818 -- stands for any
    """Stands for what Spark raises."""

    __module__ = "pyspark.errors.exceptions.captured"


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        ("kafkafs.spark.errors.JobError: there is no room", "there is no room"),
        ("storage.errors.ChecksumError: it has CRC 1 (/a/0.log, position 9)", "it has CRC 1 (/a/0.log, position 9)"),
    ],
)
def test_the_last_of_ours_counts(last: str, sentence: str) -> None:
    assert ours(FromSpark(WORKER.format(last=last))) == sentence


def test_the_systems_sentence_is_used_without_another() -> None:
    text = "Traceback (most recent call last):\nPermissionError: [Errno 13] Permission denied: '/srv/a'\n"
    assert ours(FromSpark(text)) == "/srv/a: Permission denied"
    assert ours(FromSpark("OSError: [Errno 28] No space left on device")) == "No space left on device"


def test_a_worker_without_kafkafs() -> None:
    said = ours(FromSpark("Traceback (most recent call last):\nModuleNotFoundError: No module named 'kafkafs'\n"))
    assert said is not None
    assert said.startswith("Spark's workers lack the module kafkafs: install kafkafs for ")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table is not there.\nmore",
            "[TABLE_OR_VIEW_NOT_FOUND] The table is not there.",
        ),
        (
            "An error occurred while calling o62.collectToPython.\n: org.apache.spark.SparkException: Job 0 cancelled",
            "Job 0 cancelled",
        ),
        ("", "FromSpark"),
    ],
)
def test_else_the_first_line_does(text: str, line: str) -> None:
    error = FromSpark(text)
    assert ours(error) is None
    assert first_line(error) == line


def test_whose_they_are() -> None:
    assert is_sparks(FromSpark("x"))
    assert not is_sparks(JobError("x"))
    assert missing_package(ModuleNotFoundError("x", name="pyspark.sql")) == "pyspark"
    assert missing_package(ModuleNotFoundError("x", name="kafkafs.nothing")) is None
    assert missing_package(FromSpark("x")) is None


def test_why_spark_did_not_start() -> None:
    assert is_of_starting(
        FromSpark("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")
    )
    assert not is_of_starting(FromSpark("x"))
    chatter = (
        "WARNING: Using incubator modules: x\nUsing Spark's default log4j profile\n26/11/21 14:07:29 WARN Utils: z\n"
    )
    assert startup_reason(chatter) is None
    thrown = 'Exception in thread "main" org.apache.spark.SparkException: Master must be\n\tat org.apache.spark.X\n'
    assert startup_reason(chatter + thrown) == "Master must be"
    assert startup_reason("Invalid maximum heap size: -Xmxa\nError: Could not\n") == "Invalid maximum heap size: -Xmxa"
