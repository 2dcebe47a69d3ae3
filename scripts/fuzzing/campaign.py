"""Many inputs, in processes of their own: one may crash or hang, which is a finding, and the run goes on after it."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING

from fuzzing import bomb_inputs, corpus, inputs, limits, row_inputs, small_files
from fuzzing.batch_check import check_batches
from fuzzing.bomb_check import check_bomb
from fuzzing.file_check import check_file
from fuzzing.findings import Finding
from fuzzing.row_check import check_rows
from fuzzing.small_files import check_small_file

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess
    from multiprocessing.sharedctypes import SynchronizedArray

REPORT_SECONDS = 1.0
HANG_SECONDS = 60.0
MEMORY_FILES = Path("/dev/shm")
LOG_NAME = "00000000000000000000.log"
KEPT_OF_A_KIND = 3
LEAK_CHECK_INPUTS = 1000
STARTING = -1


@dataclass(frozen=True, slots=True)
class Plan:
    """How many inputs of each kind, from which seed."""

    seed: int
    counts: dict[str, int]

    @property
    def total(self) -> int:
        """How many inputs there are."""
        return sum(self.counts.values())

    def input_at(self, number: int) -> tuple[str, int]:
        """Return the kind and index of an input by its number, from 0 to below `total`."""
        for kind, count in self.counts.items():
            if number < count:
                return kind, number
            number -= count
        raise IndexError(number)


@dataclass(slots=True)
class Found:
    """A finding, by the input that showed it."""

    kind: str
    index: int
    what: str
    detail: str


@dataclass(slots=True)
class Outcome:
    """What came of a run, or of a part of it."""

    done: Counter[str] = field(default_factory=Counter)
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, part: Outcome) -> None:
        """Add what came of another part."""
        self.done += part.done
        self.seen += part.seen
        for found in part.found:
            self.keep(found)

    def keep(self, found: Found) -> None:
        """Count a finding, and keep it unless there are enough that are like it."""
        self.counts[found.what] += 1
        if self.counts[found.what] <= KEPT_OF_A_KIND:
            self.found.append(found)


def check_input(seed: int, kind: str, index: int, directory: Path) -> Counter[str]:
    """Make one input and check it; files lie in the directory meanwhile. Raises what must not be raised."""
    if kind == "batch":
        return check_batches(inputs.batch_input(seed, index).data)
    if kind == "file":
        return check_file(directory / LOG_NAME, inputs.file_input(seed, index).data)
    if kind == "bomb":
        return check_bomb(directory, bomb_inputs.bomb_input(seed, index))
    if kind == "small":
        return check_small_file(directory, small_files.small_file(seed, index))
    return check_rows(row_inputs.rows_input(seed, index))


def run(plan: Plan, processes: int) -> Outcome:
    """Check all inputs of the plan, in that many processes at a time."""
    directory = Path(tempfile.mkdtemp(prefix="kafkafs-fuzz-", dir=MEMORY_FILES if MEMORY_FILES.is_dir() else None))
    outcome = Outcome()
    workers = [Worker(plan, number, processes, directory) for number in range(processes)]
    try:
        progress = Progress(plan)
        while any(worker.is_working for worker in workers):
            connection.wait([worker.reports for worker in workers if worker.is_working], REPORT_SECONDS)
            for worker in workers:
                worker.collect(outcome)
            progress.show(outcome)
    finally:
        for worker in workers:
            worker.stop()
        shutil.rmtree(directory)
    return outcome


class Worker:
    """Every so-manieth input of a plan, checked by one process after another until none of them dies."""

    def __init__(self, plan: Plan, first: int, step: int, directory: Path) -> None:
        self._plan = plan
        self._step = step
        self._directory = directory / str(first)
        self._directory.mkdir()
        self._start(first)

    def _start(self, first: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._at: SynchronizedArray[int] = context.Array("q", [STARTING], lock=False)
        self.reports, sender = context.Pipe(duplex=False)
        self._process: SpawnProcess = context.Process(
            target=_work, args=(self._plan, first, self._step, self._directory, self._at, sender), daemon=True
        )
        self._process.start()
        sender.close()
        self._seen_at = STARTING
        self._seen_time = time.monotonic()
        self.is_working = True

    def collect(self, outcome: Outcome) -> None:
        """Add what the process has reported; find out whether it died or hangs, and if so go on after that input."""
        if not self.is_working:
            return
        try:
            while self.reports.poll():
                part = self.reports.recv()
                if part is None:
                    self._process.join()
                    self.is_working = False
                    return
                outcome.add(part)
        except EOFError:
            self._process.join()
            self._bury(outcome, "the process dies", f"with exit code {self._process.exitcode}")
            return
        if self._at[0] != self._seen_at:
            self._seen_at, self._seen_time = self._at[0], time.monotonic()
        elif self._seen_at != STARTING and time.monotonic() - self._seen_time > HANG_SECONDS:
            self._process.kill()
            self._process.join()
            self._bury(outcome, "an input hangs", f"for {HANG_SECONDS:.0f} s")

    def stop(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()

    def _bury(self, outcome: Outcome, what: str, detail: str) -> None:
        number = self._at[0]
        if number == STARTING:
            raise RuntimeError(f"a process of the fuzzer does not get to its first input: it dies {detail}")
        kind, index = self._plan.input_at(number)
        outcome.keep(Found(kind, index, what, detail))
        self.is_working = False
        if number + self._step < self._plan.total:
            self._start(number + self._step)


def _work(plan: Plan, first: int, step: int, directory: Path, at: SynchronizedArray[int], sender: Connection) -> None:
    corpus.load()
    limits.confine_process()
    part = Outcome()
    reported = time.monotonic()
    resident_bytes = None
    for done, number in enumerate(range(first, plan.total, step)):
        at[0] = number
        kind, index = plan.input_at(number)
        try:
            seen = check_input(plan.seed, kind, index, directory)
            if done == LEAK_CHECK_INPUTS:
                resident_bytes = limits.resident_bytes()
            elif resident_bytes is not None and done % LEAK_CHECK_INPUTS == 0:
                limits.check_leak(resident_bytes)
        except Exception as error:  # noqa: BLE001 -- any error is a finding
            part.found.append(found_by(kind, index, error))
        else:
            part.seen.update({(kind, what): count for what, count in seen.items()})
        part.done[kind] += 1
        # A finding is told at once: the next input may be the process's last.
        if part.found or time.monotonic() - reported > REPORT_SECONDS:
            sender.send(part)
            part = Outcome()
            reported = time.monotonic()
    sender.send(part)
    sender.send(None)


def found_by(kind: str, index: int, error: Exception) -> Found:
    """Return the finding that an exception is."""
    if isinstance(error, Finding):
        detail = error.detail
        if error.__cause__ is not None:
            detail += "\n" + "".join(traceback.format_exception(error.__cause__))
        return Found(kind, index, error.what, detail)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return Found(
        kind,
        index,
        f"{type(error).__name__} comes out of {os.path.basename(frame.filename)}, {frame.name}",  # noqa: PTH119
        "".join(traceback.format_exception(error)),
    )


class Progress:
    """A line on the terminal, if there is one, that says how far a run is."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._started = time.monotonic()

    def show(self, outcome: Outcome) -> None:
        """Say it now."""
        if sys.stderr.isatty():
            done = outcome.done.total()
            rate = done / (time.monotonic() - self._started)
            found = outcome.counts.total()
            line = f"{done:,} of {self._plan.total:,}, {rate:,.0f} a second, {found} findings"
            sys.stderr.write(f"\r{line:<70}{'' if done < self._plan.total else chr(10)}")
            sys.stderr.flush()
