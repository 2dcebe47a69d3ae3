"""A session of Spark for one command: its options, the rows of its job, its progress, and its error messages.

What Spark and its workers write to standard error goes to a file, which is kept if the job fails in a way that only
Spark can explain. With KAFKAFS_TRACEBACK everything goes to standard error.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

import click

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
from kafkafs.spark.sessions import check_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession

Command = TypeVar("Command", bound="Callable[..., Any]")
Result = TypeVar("Result")

MASTER: Final = "spark.master"
REMOTE: Final = "spark.remote"
_CHOSEN: Final = f"{__name__}.settings"
_REMOTE_FRONT: Final = "sc://"
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # in the environment of what spark-submit has started
_QUIET: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
_STDERR: Final = 2
_INTERVAL_S: Final = 0.2


def job_options(command: Command) -> Command:
    """Give a command the options `--master` and `--conf`; `chosen_settings` returns what they say."""
    conf = click.option(
        "--conf",
        multiple=True,
        metavar="NAME=VALUE",
        expose_value=False,
        callback=_set_each,
        help="A setting of Spark's; may be given several times.",
    )
    master = click.option(
        "--master",
        metavar="URL",
        expose_value=False,
        callback=_set_master,
        help="Where Spark runs, as spark-submit takes it, or sc://HOST:PORT for Spark Connect; by default local[*], "
        "or where spark-submit says.",
    )
    return master(conf(command))


def chosen_settings(ctx: click.Context) -> dict[str, str]:
    """Return the settings for Spark: those that were given, and a command's defaults for the others."""
    given: dict[str, str] = ctx.meta.get(_CHOSEN, {})
    if _is_submitted():
        return dict(given)
    defaults = _QUIET if REMOTE in given else {MASTER: "local[*]", **_QUIET}
    return {**defaults, **given}


def _is_submitted() -> bool:
    """Return True if spark-submit has started this, so that its options hold."""
    return _SUBMITTED in os.environ


def _set_each(ctx: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> None:
    settings = ctx.meta.setdefault(_CHOSEN, {})
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise click.BadParameter(f"{text!r} is not of the form spark.NAME=VALUE", ctx, parameter)
        settings[name] = value


def _set_master(ctx: click.Context, _: click.Parameter, url: str | None) -> None:
    if url is not None:
        ctx.meta.setdefault(_CHOSEN, {})[REMOTE if url.startswith(_REMOTE_FRONT) else MASTER] = url


class JobRows(NamedTuple):
    """The rows of a job, and the columns of its DataFrame in their order."""

    columns: tuple[str, ...]
    rows: list[dict[str, Any]]

    def total(self, column: str) -> Any:  # noqa: ANN401 -- a whole number, or one with a fraction
        """Return the sum of a column."""
        return sum(row[column] or 0 for row in self.rows)


class JobSession:
    """A command's session, `spark`."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._start_s = time.monotonic()

    def result(self, work: Callable[[], Result], doing: str) -> Result:
        """Return the result of work with the session, and show the progress of its tasks."""
        from kafkafs.spark.jobs.announcing import announced

        progress = Progress.on_terminal(is_erased_for_results=True)
        with announced() as stages, TaskProgress(self.spark, progress, doing, stages):
            return work()

    def rows(self, work: Callable[[], DataFrame], doing: str) -> JobRows:
        """Return the rows of the DataFrame that work with the session returns, and show progress."""

        def collected() -> JobRows:
            frame = work()
            return JobRows(tuple(frame.columns), [row.asDict(recursive=True) for row in frame.collect()])

        return self.result(collected, doing)

    @property
    def time_text(self) -> str:
        """Return how long it has taken, as the end of a message."""
        return f" in {time.monotonic() - self._start_s:.1f} s"

    def summarize(self, text: str) -> None:
        """Say on standard error what was done, and how long it took."""
        click.echo(f"{text}{self.time_text}", err=True)


@contextmanager
def job_session(ctx: click.Context) -> Iterator[JobSession]:
    """Provide a session with the settings of the command line, and stop it if it was started here.

    Raises `JobError` if Spark is not installed, does not start, or fails.
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
    if _is_submitted():
        spark = session(settings)
    else:
        if REMOTE not in settings:
            check_java(os.environ)
        with chatter.held_back():
            spark = session(settings)
    stopping.callback(spark.stop)
    return spark


def _explained(error: Exception, chatter: _Chatter) -> Exception:
    """Return an error that says in a sentence what this one means; the same one if it is not Spark's."""
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
        """Leave the file where it is, and return its path."""
        path, self._path = self._path, None
        return path

    def drop(self) -> None:
        """Remove the file."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class TaskProgress:
    """Shows how much of the bytes that a job has announced is read, or how many tasks of all its stages are done.

    A session of Spark Connect does not tell. After the `with` block nothing more is written, and what was written is
    erased.
    """

    def __init__(
        self, spark: SparkSession, progress: Progress, doing: str, announced: Sequence[tuple[int, ...]] = ()
    ) -> None:
        context = getattr(spark, "sparkContext", None)  # a session of Spark Connect has none
        self._tracker = None if context is None else context.statusTracker()
        self._progress = progress
        self._doing = doing
        self._announced = announced
        self._stages: dict[int, tuple[int, int]] = {}
        self._ended = Event()
        self._thread = Thread(target=self._watch, name="task progress", daemon=True)

    def __enter__(self) -> Self:
        if self._tracker is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._progress.erase()

    def _watch(self) -> None:
        while not self._ended.wait(_INTERVAL_S):
            if self._progress.is_due:
                self.show()

    def show(self) -> None:
        """Say how much is done, if a message is due."""
        from kafkafs.spark.jobs.announcing import bytes_done

        assert self._tracker is not None
        for stage in {*self._stages, *self._tracker.getActiveStageIds()}:
            found = self._tracker.getStageInfo(stage)
            if found is not None:
                self._stages[stage] = (found.numCompletedTasks, found.numTasks)
        read = bytes_done(self._announced, self._stages)
        if read is not None:
            self._progress.show(self._doing, *read)
        elif self._stages:
            done, total = (sum(counts) for counts in zip(*self._stages.values(), strict=True))
            self._progress.show_count(f"{self._doing}, tasks done", done, total)
