"""Tools that walk through many partitions: they find what is there, and what they ask for is not all read for it."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest

from kafkafs.mount.listing import WALK_LOGS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted

pytestmark = pytest.mark.e2e

WALKED = 20
LAST = WALK_LOGS + WALKED - 1


@pytest.fixture
def mounted(store_mounts: Callable[..., Mounted], tmp_path: Path) -> Mounted:
    served = store_mounts(tmp_path / "store", "-o", f"default_partitions={LAST + 1},maintenance=off")
    done = served.run(f"mkdir t && for n in {{0..{LAST}}}; do printf 'a\\nb\\nc\\n' > t/$n/append || exit; done")
    assert done.stderr == ""
    return served


def counts(mounted: Mounted, metric: str) -> dict[str, int]:
    return counted(mounted.run(f"grep '^{metric}' .kafkafs/metrics").stdout)


def counted(metrics: str) -> dict[str, int]:
    lines = metrics.splitlines()
    return {line.partition('"')[2].partition('"')[0]: int(float(line.split()[-1])) for line in lines}


# Names whose size takes reading a log; the kernel looks these up.
UNSIZED = {
    *("values", "keys", "records.jsonl", "damage.jsonl"),
    *("info", "log-start-offset", "transactions", "producers", "leader-epochs"),
}
DIRECTORIES = 5
"""Those of a partition: its own, offset, by-time, segments and damage."""


def unsized(names: str) -> int:
    found = [name.rpartition("/")[2] for name in names.split()]
    return sum(name in UNSIZED or name.endswith((".plan", ".txt")) for name in found)


def test_a_walk_looks_up_what_has_no_size_yet_and_little_is_kept_of_the_rest(mounted: Mounted) -> None:
    mounted.run(f"for n in {{0..{WALK_LOGS}}}; do ls t/$n; done")  # from the next on, this is a walk
    numbers = " ".join(f"t/{number}" for number in range(WALK_LOGS + 1, LAST + 1))
    before, known = counts(mounted, "kafkafs_requests_total"), counts(mounted, "kafkafs_known_inodes")[""]
    found = mounted.run(f"du -a {numbers} | cut -f 2")
    walked, looked_up = WALKED - 1, unsized(found.stdout)
    assert len(found.stdout.split()) > 30 * walked
    assert walked < looked_up < 20 * walked
    after = counts(mounted, "kafkafs_requests_total")
    asked = {name: after[name] - before.get(name, 0) for name in ("lookup", "getattr", "opendir", "readdir")}
    assert asked["opendir"] == DIRECTORIES * walked
    assert asked["readdir"] <= 2 * asked["opendir"]
    assert asked["lookup"] + asked["getattr"] <= 2 * looked_up + 3 * walked + 20, asked
    assert counts(mounted, "kafkafs_known_inodes")[""] - known <= looked_up + DIRECTORIES * walked + 20


def test_what_tar_takes_from_a_walk_is_whole(mounted: Mounted, tmp_path: Path) -> None:
    archive = tmp_path / "t.tar"
    mounted.run(f"tar -cf {archive} t")
    with tarfile.open(archive) as stored:
        for number in (0, LAST):
            for name in ("values", "info", "records.jsonl", "log-start-offset", "offset/latest"):
                path = f"t/{number}/{name}"
                member = stored.extractfile(path)
                assert member is not None
                found, expected = (facts(text) for text in (member.read(), mounted.run_bytes(f"cat {path}").stdout))
                assert found == expected != [], name


def facts(text: bytes) -> list[bytes]:
    """The lines without the size of indexes, which are trimmed once nothing was appended for a while."""
    return [line for line in text.splitlines(keepends=True) if not line.startswith(b"index.bytes=")]


def test_what_a_walk_has_found_is_there_at_once(mounted: Mounted) -> None:
    """The kernel has names of it that this process does not know, and looks them up when they are used."""
    walk = "du -a t > /dev/null"
    texts = "values records.jsonl info log-start-offset leader-epochs segments/leader-epoch-checkpoint offset/latest"
    for text in texts.split():
        expected = mounted.run(f"cat t/{LAST}/{text}").stdout
        assert expected
        found = mounted.run(f"{walk}; cat t/{LAST}/{text}; stat -c %s t/{LAST}/{text}")
        assert found.stderr == ""
        assert found.stdout == f"{expected}{len(expected)}\n", text
    script = f"readlink t/{LAST}/by-time/*; cd t/{LAST}/offset && cat 0 && ls | wc -l"
    expected = mounted.run(script).stdout
    assert expected.endswith("a5\n")
    found = mounted.run(f"{walk}; {script}")
    assert (found.stdout, found.stderr) == (expected, "")
    done = mounted.run(f"{walk}; echo d >> t/{LAST}/append && tail -n 1 t/{LAST}/values")
    assert (done.stdout, done.stderr) == ("d\n", "")


def test_another_walk_costs_no_more(mounted: Mounted) -> None:
    """The kernel knows the names already: what it is told of them agrees with that."""
    names = mounted.run("du -a t | cut -f 2").stdout
    of_one = unsized(" ".join(name for name in names.split() if name.startswith(f"t/{LAST}/")))
    before = counts(mounted, "kafkafs_requests_total")
    mounted.run(f"du -a t/{LAST}")
    mounted.run(f"du -a t/{LAST}")
    after = counts(mounted, "kafkafs_requests_total")
    assert after["lookup"] + after["getattr"] - before["lookup"] - before["getattr"] <= 4 * of_one + 20
    errors = mounted.run("grep -c 'request_errors_total.*ESTALE' .kafkafs/metrics").stdout
    assert errors == "0\n"


def test_a_walk_finds_types_times_and_numbers_as_stat_does(mounted: Mounted) -> None:
    names = f"t/{LAST} -mindepth 1"
    shown = "%p %y %TY %m %i\\n"
    mounted.run("du t")
    walked = sorted(mounted.run(f"find {names} -printf '{shown}'").stdout.splitlines())
    alone = f"while read name; do find $name -maxdepth 0 -printf '{shown}'; done"
    plain = mounted.run(f"find {names} -printf '%p\\n' | {alone}")
    assert walked == sorted(plain.stdout.splitlines())
    raw = mounted.run(f"find t/{LAST}/segments -name '*.log' -printf '%s'").stdout
    assert raw == mounted.run(f"stat -c %s t/{LAST}/segments/*.log").stdout.strip()


def test_sizes_of_logs_that_others_write_are_told_once_a_walk_asks_for_some(
    mounted: Mounted, store_mounts: Callable[..., Mounted], tmp_path: Path
) -> None:
    assert mounted.end() == 0
    served = store_mounts(tmp_path / "store", "-o", "ro", at="again")
    metrics = "grep ^kafkafs_requests_total .kafkafs/metrics; echo"
    first, rest = f"t/{{0..{WALK_LOGS + 1}}}", f"t/{{{WALK_LOGS + 2}..{LAST}}}"  # the last of the first is looked up
    done = served.run(f"du -a {first} > /dev/null; {metrics}; du -a --apparent-size -B 1 {rest}; echo; {metrics}")
    before, walked, after, _ = done.stdout.split("\n\n")
    requests = counted(before), counted(after)
    asked = sum(requests[1][name] - requests[0][name] for name in ("lookup", "getattr"))
    assert asked <= 2 * (WALKED - 2) + 20
    sizes = dict(reversed(line.split("\t")) for line in walked.splitlines())
    for name in (
        "values",
        "info",
        "records.jsonl",
        "log-start-offset",
        "transactions",
        "segments/00000000000000000000.log.txt",
    ):
        size = served.run(f"cat t/{LAST}/{name} | wc -c").stdout.strip()
        assert sizes[f"t/{LAST}/{name}"] == size != "0", name
