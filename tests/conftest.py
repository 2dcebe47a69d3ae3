"""Shared by the whole test suite: Hypothesis profiles, the outcomes that scripts/test adds up, and data sets.

Tests run with the profile `test`, which tries the same examples every time. KAFKAFS_HYPOTHESIS_PROFILE=prove tries
many more, different ones each time; the seed that the first lines show, given as --hypothesis-seed, repeats them.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import os
import random
import shutil
import signal
import tarfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard
from hypothesis import HealthCheck, settings

from storage.budget import MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TESTS = Path(__file__).parent
NAME_PART_MAX = 500
MOUNTING = {"mounting", "shared_mount", "store_mounts"}
"""The fixtures with which a test mounts; others say it themselves."""

pytest_plugins = [
    "mounts",
    "object_stores",
    "command_examples",
    "command_mounts",
    "other_users",
    "real_brokers",
    "small_disks",
    "spark_sessions",
    "system_call_trees",
]

settings.register_profile("test", derandomize=True, deadline=None, max_examples=100, print_blob=True)
settings.register_profile(
    "prove",
    database=None,
    deadline=None,
    max_examples=100_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
PROFILE = os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE", "test")
settings.load_profile(PROFILE)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of a run that is not derandomized, before Hypothesis would choose one in silence.

    A shell starts background commands with SIGINT ignored, nohup with SIGHUP, and what they start inherits that: tests
    send both.
    """
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    if PROFILE != "test" and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.getrandbits(32))


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that start real brokers or mount, and leave timed runs to `scripts/prove`."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if "real_kafka" in names:
            item.add_marker(pytest.mark.broker)
        if not MOUNTING.isdisjoint(names):
            item.add_marker(pytest.mark.e2e)
    if PROFILE == "test" and (timed := [item for item in items if item.get_closest_marker("timed")]):
        items[:] = [item for item in items if item not in timed]
        config.hook.pytest_deselected(items=timed)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Keep names short: each stands in the environment of what its test starts, where the system bounds it."""
    if isinstance(val, (str, bytes)) and len(val) > NAME_PART_MAX:
        return f"{val[:NAME_PART_MAX]!a}...{len(val)}"
    return None


def pytest_report_header(config: pytest.Config) -> str:
    seed = "the same examples every time" if PROFILE == "test" else f"--hypothesis-seed={config.option.hypothesis_seed}"
    return f"hypothesis profile {PROFILE}: {seed}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write each test's outcome, name and reason as a row where scripts/test looks for it."""
    # A worker of a parallel run has a summary too, of what it reports to the process that started it.
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    calls = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    properties = (found for report in calls for found in report.user_properties)
    if points := sum(value for name, value in properties if name == "cut_points"):
        terminalreporter.write_line(f"runs were cut at {points} points")
    if path := os.environ.get("KAFKAFS_TEST_RESULTS"):
        with Path(path).open("a", encoding="utf-8") as rows:
            rows.writelines("\t".join(row) + "\n" for row in _rows(terminalreporter))


def _rows(reporter: pytest.TerminalReporter) -> Iterator[tuple[str, str, str, str, str]]:
    """Each test's tier, outcome, name, seconds and reason."""
    seconds: Counter[str] = Counter()
    tiers = {}
    for report in (report for reports in reporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid] += report.duration
            tiers[report.nodeid] = _tier(report.keywords)
    for outcome, name, reason in _outcomes(reporter):
        yield tiers.get(name, _tiers()[0]), outcome, _without_group(name), f"{seconds[name]:.3f}", reason


def _without_group(name: str) -> str:
    """Leave out what pytest-xdist adds to the name of a test that is in a group."""
    return name[: name.rindex("@")] if name.rfind("@") > name.rfind("]") else name


def _tiers() -> list[str]:
    """Return the tiers that scripts/test runs here."""
    return os.environ.get("KAFKAFS_TEST_TIER", "unit").split()


def _tier(keywords: Mapping[str, object]) -> str:
    """Tell a test's tier by its markers where several tiers run at once."""
    return next(
        (tier for tier in ("crash", "property", "golden") if tier in keywords and tier in _tiers()), _tiers()[0]
    )


def _outcomes(reporter: pytest.TerminalReporter) -> Iterator[tuple[str, str, str]]:
    failed = {report.nodeid: None for outcome in ("failed", "error") for report in reporter.stats.get(outcome, [])}
    yield from (("failed", name, "") for name in failed)
    passed = (report.nodeid for report in reporter.stats.get("passed", []))
    yield from (("passed", name, "") for name in passed if name not in failed)
    for report in reporter.stats.get("skipped", []):
        reason = " ".join(str(report.longrepr[2]).removeprefix("Skipped: ").split())
        # Continuous integration has every capability, except perhaps a Maven that answers.
        forbidden = os.environ.get("CI") and not reason.startswith("not run: Maven")
        yield "failed" if forbidden else "skipped", report.nodeid, reason


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpack a data set of tests/data by its name, such as `kafka-3.9`, and return the directory that holds it.

    It is unpacked once and kept in the checkout's cache, where parallel runs share it, so no test may change it.
    """

    def unpack(name: str) -> Path:
        archive = TESTS / "data" / f"{name}.tar.zst"
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
        cache = TESTS.parent / ".cache" / "datasets"
        try:
            cache.mkdir(parents=True, exist_ok=True)
            (cache / "lock").touch()
        except OSError:
            cache = tmp_path_factory.getbasetemp() / "datasets"
            cache.mkdir(exist_ok=True)
        target = cache / f"{name}-{digest}"
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():
                _unpack_whole(archive, target)
        return target

    return unpack


@pytest.fixture
def settled_memory() -> Iterator[None]:
    """Let nothing that earlier tests left give memory back to the budget during a test that asks how much is left."""
    gc.collect()
    MEMORY.shrink_caches()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session")
def topic_settings() -> dict[str, dict[str, str]]:
    """Give what was set on each topic of the data sets."""
    groups = tomllib.loads((TESTS / "data" / "topics.toml").read_text())
    return {
        topic: {key: str(value) for key, value in group.items() if key != "topics"}
        for group in groups.values()
        for topic in group["topics"]
    }


def _unpack_whole(archive: Path, target: Path) -> None:
    """Make `target` appear with all its contents or not at all."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with (
        archive.open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        # The archives are ours. Debian 12's Python has no filters yet, and later ones ask which to use.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(partial)
    partial.rename(target)
