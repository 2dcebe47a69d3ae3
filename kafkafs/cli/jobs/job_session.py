"""A session of Spark for one command, and its error messages.

What Spark and its workers write to standard error goes to a file, which is kept if the job fails in a way that Spark
alone can explain. With KAFKAFS_TRACEBACK nothing is held back.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kafkafs.cli.jobs.job_options import REMOTE, chosen_settings, is_submitted
from kafkafs.cli.jobs.task_progress import TaskProgress
from kafkafs.cli.progress import Progress
from kafkafs.spark.errors import JobError
from kafkafs.spark.failures import (
    first_line,
    is_of_starting,
    is_sparks,
    kind_of_ours,
    missing_package,
    ours,
    startup_reason,
)
from kafkafs.spark.java import check_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

Result = TypeVar("Result")

_STDERR: Final = 2


class JobSession:
    """The session, `spark`, and what a command does with it."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._start_s = time.monotonic()

    def result(self, work: Callable[[], Result], doing: str) -> Result:
        """Return the result of work with the session, and show the progress of its tasks."""
        with TaskProgress(self.spark, Progress.on_terminal(is_erased_for_results=True), doing):
            return work()

    def rows(self, work: Callable[[], DataFrame], doing: str) -> list[dict[str, Any]]:
        """The rows of the DataFrame that work with the session gives, in the same way."""
        found = self.result(lambda: work().collect(), doing)
        return [row.asDict(recursive=True) for row in found]

    @property
    def time_text(self) -> str:
        """Return how long it has taken, as the end of a message."""
        return f" in {time.monotonic() - self._start_s:.1f} s"

    def summarize(self, text: str) -> None:
        """Say on standard error what was done, and how long it took."""
        click.echo(f"{text}{self.time_text}", err=True)


@contextmanager
def job_session(ctx: click.Context) -> Iterator[JobSession]:
    """A session with the settings of the command line, stopped in the end if it was begun here.

    Raises `JobError` if Spark is not there, does not start, or fails.
    """
    chatter = _Chatter()
    try:
        with ExitStack() as stopping:
            yield JobSession(_session(ctx, chatter, stopping))
    except Exception as error:
        raise _explained(error, chatter) from error
    finally:
        chatter.drop()


def _session(ctx: click.Context, chatter: _Chatter, stopping: ExitStack) -> SparkSession:
    from pyspark.sql import SparkSession

    from kafkafs.spark import session

    spark = SparkSession.getActiveSession()
    if spark is not None:
        return spark
    settings = chosen_settings(ctx)
    if is_submitted():
        spark = session(settings)
    else:
        if REMOTE not in settings:
            check_java(os.environ)
        with chatter.held_back():
            spark = session(settings)
    stopping.callback(spark.stop)
    return spark


def _explained(error: Exception, chatter: _Chatter) -> Exception:
    """The error that says in a sentence what this one means; the same one if that is not for Spark to say."""
    package = missing_package(error)
    if package is not None:
        return JobError(
            f"{package} is missing, which Spark's jobs need: run `pip install 'kafkafs[spark]'` for {sys.executable}"
        )
    if not is_sparks(error):
        return error
    sentence = ours(error)
    if sentence is not None:
        return JobError(sentence, kind=kind_of_ours(error))
    reason = startup_reason(chatter.text()) if is_of_starting(error) else None
    if reason is not None:
        return JobError(f"Spark did not start: {reason}")
    place = chatter.keep()
    return JobError(first_line(error) if place is None else f"{first_line(error)}; what Spark said is in {place}")


class _Chatter:
    """The standard error of Spark and its workers, in a file that is removed in the end unless it is kept."""

    def __init__(self) -> None:
        self._path: Path | None = None

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Make processes that are started in the block write to the file."""
        if os.environ.get("KAFKAFS_TRACEBACK"):
            yield
            return
        number, name = tempfile.mkstemp(prefix="kafkafs-spark-", suffix=".log")
        self._path = Path(name)
        sys.stderr.flush()
        before = os.dup(_STDERR)
        try:
            os.dup2(number, _STDERR)
            yield
        finally:
            os.dup2(before, _STDERR)
            os.close(before)
            os.close(number)

    def text(self) -> str:
        """Return the file's text."""
        return "" if self._path is None else self._path.read_text(encoding="utf-8", errors="replace")

    def keep(self) -> Path | None:
        """Leave the file where it is."""
        path, self._path = self._path, None
        return path

    def drop(self) -> None:
        """Remove the file."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
