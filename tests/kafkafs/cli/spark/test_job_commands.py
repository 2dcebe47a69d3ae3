"""What the commands of `kafkafs spark` share, without a Spark."""

from __future__ import annotations

import io
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import pytest
from click.testing import CliRunner

from kafkafs.cli import main
from kafkafs.cli.progress import Progress
from kafkafs.cli.spark.session import TaskProgress, chosen_settings, job_options
from kafkafs.spark.jobs.announcing import announce, announced

if TYPE_CHECKING:
    from pathlib import Path

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


def settings(*arguments: str) -> dict[str, str]:
    found: dict[str, str] = {}

    @click.command()
    @job_options
    @click.pass_context
    def command(ctx: click.Context) -> None:
        found.update(chosen_settings(ctx))

    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return found


def test_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert settings() == {"spark.master": "local[*]", **QUIET}
    given = settings("--conf", "spark.a=b=c", "--master", "local[2]", "--conf", "spark.ui.enabled=true")
    assert given == {"spark.master": "local[2]", **QUIET, "spark.a": "b=c", "spark.ui.enabled": "true"}
    assert settings("--master", "sc://host:15002") == {"spark.remote": "sc://host:15002", **QUIET}


def test_what_spark_submit_was_told_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert settings() == {}
    assert settings("--conf", "spark.a=1") == {"spark.a": "1"}


@pytest.mark.parametrize("text", ["a=b", "spark.a", ""])
def test_a_setting_that_is_none(text: str) -> None:
    result = CliRunner().invoke(main, ["spark", "stats", "/nowhere", "--conf", text])
    assert result.exit_code == 2
    assert f"{text!r} is not of the form spark.NAME=VALUE" in result.output


def run_without(package: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.modules[{package!r}] = None\nfrom kafkafs.cli import main\nmain({list(arguments)!r})"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60, check=False
    )


@pytest.mark.parametrize("job", ["stats", "verify", "diff", "gaps", "lag"])
def test_without_pyspark(tmp_path: Path, job: str) -> None:
    stores = [str(tmp_path)] * (2 if job == "diff" else 1)
    found = run_without("pyspark", "spark", job, *stores, PYTHONPATH=":".join(sys.path))
    assert (found.returncode, found.stdout) == (3, "")
    assert found.stderr == (
        "kafkafs: pyspark is missing, which Spark's jobs need: run `pip install 'kafkafs[spark]'` for "
        f"{sys.executable}\n"
    )


def test_without_java(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="not run: PySpark is not installed")
    found = run_without("nothing", "spark", "stats", str(tmp_path), PATH=str(tmp_path), PYTHONPATH=":".join(sys.path))
    assert (found.returncode, found.stdout) == (3, "")
    assert found.stderr == "kafkafs: Spark needs Java 17 or newer, and there is none on the PATH\n"


class Tracker:
    """What Spark says of its stages, one look after the other."""

    def __init__(self, *looks: dict[int, tuple[int, int]]) -> None:
        self.looks = list(looks)
        self.stages: dict[int, tuple[int, int]] = {}

    def getActiveStageIds(self) -> list[int]:  # noqa: N802
        self.stages = self.looks.pop(0)
        return [*self.stages, 99]

    def getStageInfo(self, stage: int) -> Any:  # noqa: N802
        if stage not in self.stages:
            return None
        completed, total = self.stages[stage]
        return SimpleNamespace(numCompletedTasks=completed, numTasks=total)


def test_progress_is_that_of_all_stages() -> None:
    stream, now = io.StringIO(), iter(range(0, 100, 10))
    tracker = Tracker({}, {1: (1, 4)}, {1: (4, 4), 2: (0, 3)}, {2: (2, 3)})
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    progress = TaskProgress(spark, Progress(stream, clock=lambda: next(now)), "counting")
    for _ in range(4):
        progress.show()
    assert stream.getvalue().split("\r\x1b[K") == [
        "",
        "counting, tasks done: 1 of 4",
        "counting, tasks done: 4 of 7",
        "counting, tasks done: 6 of 7",
    ]


def test_progress_is_in_bytes_if_the_job_announces_them() -> None:
    stream, now = io.StringIO(), iter(range(0, 100, 10))
    tracker = Tracker({1: (0, 3)}, {1: (1, 3), 2: (1, 2)}, {2: (2, 2), 3: (1, 3)})
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    with announced() as stages:
        announce([Sized(20_000_000), (Sized(1_000_000), Sized(9_000_000)), Sized(30_000_000)])
        announce([("a", ["b"]), ("a", [])])
        announce([Sized(40_000_000)] * 3)
    announce([Sized(1)])
    progress = TaskProgress(spark, Progress(stream, clock=lambda: next(now)), "counting", stages)
    for _ in range(3):
        progress.show()
    assert stream.getvalue().split("\r\x1b[K") == [
        "",
        "counting: 0 % of 180 MB",
        "counting: 11 % of 180 MB, 500 kB/s, 5m20s left",
        "counting: 33 % of 180 MB, 857 kB/s, 2m20s left",
    ]


class Sized(NamedTuple):
    """A piece of work."""

    size_bytes: int


def test_a_session_that_tells_nothing_is_not_asked() -> None:
    stream = io.StringIO()
    remote: Any = SimpleNamespace()
    with TaskProgress(remote, Progress(stream), "counting"):
        pass
    assert stream.getvalue() == ""
