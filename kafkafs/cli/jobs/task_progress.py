"""Progress of a Spark job's tasks on a terminal."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession

    from kafkafs.cli.progress import Progress

_INTERVAL_S: Final = 0.2


class TaskProgress:
    """Tells of the tasks of all stages that have begun; a session through Spark Connect tells nothing.

    Once it is left, nothing more is written, and what was written is erased.
    """

    def __init__(self, spark: SparkSession, progress: Progress, doing: str) -> None:
        context = getattr(spark, "sparkContext", None)  # a session through Spark Connect has none
        self._tracker = None if context is None else context.statusTracker()
        self._progress = progress
        self._doing = doing
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
        """Say how many tasks are done, if it is time to say something."""
        assert self._tracker is not None
        for stage in self._tracker.getActiveStageIds():
            found = self._tracker.getStageInfo(stage)
            if found is not None:
                self._stages[stage] = (found.numCompletedTasks, found.numTasks)
        if self._stages:
            done, total = (sum(counts) for counts in zip(*self._stages.values(), strict=True))
            self._progress.show_count(f"{self._doing}, tasks done", done, total)
