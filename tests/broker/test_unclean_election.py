"""A replica that an unclean leader made truncate its log: sound, dumped without damage, and followed all the while."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from mounts import store_mounting
from real_brokers import releases
from unclean_elections import LOG, TOPIC, unclean_election
from waiting import until

from kafkafs.cli import main
from storage.files import Files
from storage.verify.finding import FindingKind, Severity
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from click.testing import Result
    from mounts import Mounted
    from real_brokers import RealKafka

    from storage.verify.finding import Finding

SCRIPT = Path(__file__).parents[2] / "scripts" / "kafka"
FOLLOWING_S_MAX = 60


@dataclass
class Truncated:
    """The store of a truncated replica when its broker was killed, and what was seen on the way there."""

    store: Path
    values: bytes
    found: dict[str, list[Finding]]
    followed: bytes
    to_follow: bytes


def findings(log_dir: Path) -> list[Finding]:
    return list(Verification(Files(), [log_dir]).run(lambda: None))


def findings_once_noted(log_dir: Path) -> list[Finding]:
    """Return the findings when the broker has noted how long the truncated log is; it does so every few seconds."""

    def noted() -> tuple[list[Finding]] | None:
        found = findings(log_dir)
        return None if FindingKind.LOST_TAIL in {finding.kind for finding in found} else (found,)

    (found,) = until(noted, lambda: standing(log_dir))
    return found


def standing(log_dir: Path) -> str:
    """Describe what the broker has not noted, and its files of offsets."""
    lost = [finding for finding in findings(log_dir) if finding.kind is FindingKind.LOST_TAIL]
    files = [*log_dir.glob("*-checkpoint"), Path(log_dir, f"{TOPIC}-0", "leader-epoch-checkpoint")]
    texts = [f"{path.name}, {time.time() - path.stat().st_mtime:.1f} s old: {path.read_text()!r}" for path in files]
    return "\n".join(["the broker has not noted the log's end", *map(str, lost), *texts])


@pytest.fixture(scope="module", params=releases("4"))
def truncated(
    request: pytest.FixtureRequest, real_kafka: RealKafka, tmp_path_factory: pytest.TempPathFactory
) -> Truncated:
    directory = tmp_path_factory.mktemp(f"cluster-{request.param}")
    found: dict[str, list[Finding]] = {}
    with (
        unclean_election(real_kafka, directory / "cluster", request.param) as election,
        store_mounting(directory) as mount,
    ):
        log_dir = election.first.log_dirs[0]
        mounted = mount(log_dir, "-o", "ro")
        followed = directory / "followed"
        with mounted.started(f"tail -f -n +1 -s 0.1 orders/0/values > {followed} 2>> {directory}/tail.log"):
            election.diverge()
            before = text_of(election.common + election.lost)
            mounted.until(lambda: followed.exists() and followed.read_bytes() == before)
            election.elect()
            found["the leader"] = findings(election.second.log_dirs[0])
            election.reconcile()
            found["truncated, live"] = findings_once_noted(log_dir)
            to_follow = before + text_of(election.others)
            give_time_to_follow(mounted, followed, to_follow)
        election.first.kill()
        found["truncated, killed"] = findings(log_dir)
        store = Path(shutil.copytree(log_dir, directory / "store"))
    return Truncated(store, text_of(election.values), found, followed.read_bytes(), to_follow)


def test_the_truncated_replica_is_sound(truncated: Truncated) -> None:
    assert list(truncated.found) == ["the leader", "truncated, live", "truncated, killed"]
    for state, found in truncated.found.items():
        assert [finding for finding in found if finding.severity is not Severity.NOTICE] == [], state
    kinds = {finding.kind for finding in truncated.found["truncated, live"]}
    assert kinds == {FindingKind.INDEX_ENTRY, FindingKind.TIME_INDEX_ENTRY}
    assert truncated.found["the leader"] == []
    assert kafkafs("verify", truncated.store).exit_code == 0


def test_what_is_there_is_read(truncated: Truncated) -> None:
    assert kafkafs("cat", truncated.store, "orders/0/values").stdout_bytes == truncated.values
    count = truncated.values.count(b"\n")
    for offset in range(0, count, 37):
        value = truncated.values.split(b"\n")[offset]
        assert kafkafs("cat", truncated.store, f"orders/0/offset/{offset}").stdout_bytes == value


@pytest.mark.parametrize("suffix", [".log", ".timeindex", ".index"])
def test_dumps_are_the_real_tools(truncated: Truncated, suffix: str) -> None:
    path = (truncated.store / LOG).with_suffix(suffix)
    real = subprocess.run([sys.executable, SCRIPT, "dump", "--quick", path], capture_output=True, check=False)
    ours = kafkafs("dump", path)
    assert ours.exit_code == 0
    assert b"Damaged" not in ours.stdout_bytes
    if suffix == ".index":  # on whose entries of batches that are gone the real tool dies
        assert real.returncode != 0
        theirs, rest = ours.stdout_bytes[: len(real.stdout)], ours.stdout_bytes[len(real.stdout) :]
        assert theirs == real.stdout
        remark, *entries = rest.decode().splitlines()
        assert remark == f"{path} has no more entries of the log as it is: the rest was left by a truncation."
        assert len(entries) > 5
        assert all(entry.startswith("offset: ") for entry in entries)
    else:
        assert (ours.stdout_bytes, real.returncode) == (real.stdout, 0)
        # The real tool writes absolute paths there, and so do we.
        assert ours.stderr_bytes == real.stderr


def test_what_follows_it_misses_nothing(truncated: Truncated) -> None:
    """What the truncation took was there before; what came in its place follows."""
    assert truncated.followed == truncated.to_follow


def give_time_to_follow(mounted: Mounted, followed: Path, expected: bytes) -> None:
    """Wait for the follower; whether it has printed everything by then is for a test to say."""
    with suppress(AssertionError):
        mounted.until(lambda: followed.read_bytes() == expected, seconds=FOLLOWING_S_MAX)


def text_of(values: list[bytes]) -> bytes:
    return b"".join(value + b"\n" for value in values)


def kafkafs(*arguments: object) -> Result:
    result = CliRunner().invoke(main, list(map(str, arguments)))
    assert "Traceback" not in result.stderr
    return result
