"""Tools that go through directories find the names that are listed, and times and sizes that make sense."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mounts import Mounted

pytestmark = pytest.mark.e2e

LISTED = [*map(str, range(90, 100)), "earliest", "latest"]


@pytest.fixture
def mounted(store_mounts: Callable[..., Mounted], tmp_path: Path) -> Mounted:
    served = store_mounts(tmp_path / "store", "-o", "list_limit=10")
    done = served.run(
        "mkdir t && echo segment.bytes=1000 > t/config && seq 0 99 | split -l 9 --filter='cat >> t/0/append'"
    )
    assert done.stderr == ""
    return served


def test_globs_and_find_see_listed_names_only(mounted: Mounted) -> None:
    assert sorted(mounted.run("cd t/0/offset; printf '%s\n' *").stdout.split()) == LISTED
    assert sorted(mounted.run("find t/0/offset -type f -printf '%f\n'").stdout.split()) == LISTED
    assert mounted.run("cd t/0/offset; compgen -f 9").stdout.split() == LISTED[:10]
    assert mounted.run("find t -name 5; ls t/0/offset/5*[0-9]").stdout == ""
    assert mounted.run("cat t/0/offset/{5,6..8,17}.key; cat t/0/offset/{5,17}").stdout == "\n\n517"  # no keys
    found = mounted.run("getfattr --only-values -n user.kafkafs.listed t/0/offset")
    assert (found.stdout, found.returncode) == ("10 of 100", 0)
    assert "the newest records are listed, 10 of 100" in mounted.said()


def test_trees_are_searched_and_copied_by_their_listed_names(mounted: Mounted, tmp_path: Path) -> None:
    found = mounted.run("grep -rlx 95 t/0/offset | sort")
    assert found.stdout == "t/0/offset/95\n"
    done = mounted.run(f"cp -r t/0/offset {tmp_path}/copy && cat {tmp_path}/copy/9? | tr '\n' ' '")
    assert (done.stdout, done.stderr) == ("".join(map(str, range(90, 100))), "")
    done = mounted.run(
        f"tar -cf {tmp_path}/t.tar t/0/offset t/0/values t/0/segments && tar -tf {tmp_path}/t.tar | wc -l"
    )
    assert done.stderr == ""
    done = mounted.run(f"tar -df {tmp_path}/t.tar && echo same")
    assert (done.stdout, done.stderr) == ("same\n", "")
    # What an index of a full size holds is not counted before it is read.
    rsync = f"rsync -a --exclude='*index.txt' t/0/segments/ {tmp_path}/segments"
    done = mounted.run(f"{rsync} && diff -r -x '*index.txt' t/0/segments {tmp_path}/segments && echo same")
    assert (done.stdout, done.stderr) == ("same\n", "")


def test_everything_that_is_listed_has_a_time_and_a_size(mounted: Mounted) -> None:
    """Nothing is of 1970, as what has no time of its own is as old as the log."""
    old = mounted.run("find . ! -newermt 2001-01-01 -print")
    assert (old.stdout, old.stderr) == ("", "")
    views = "t/0 t/0/offset t/0/by-time t/0/values t/0/info t/0/append"
    mounted.until(lambda: len(set(mounted.run(f"stat -c %Y {views}").stdout.split())) == 1)
    names = mounted.run("find t -type f ! -name 'append*'").stdout.split()
    plans = [name for name in names if name.endswith(".plan")]
    assert plans
    for name in plans:  # a plan says ages, so its length may change between two questions
        mounted.until(
            lambda name=name: len(set(mounted.run(f"stat -c %s {name}; cat {name} | wc -c").stdout.split())) == 1
        )
    sized = len(plans)
    for name in set(names) - set(plans):
        found = mounted.run(
            f"stat -c %s {name}; cat {name} | wc -c; getfattr --only-values -n user.kafkafs.size {name}"
        )
        told, real, *pending = found.stdout.split()
        assert (told == real) != (pending == ["pending"]), name
        sized += told == real
    assert sized > 30


def test_links_of_times_lead_to_records_of_those_times(mounted: Mounted) -> None:
    listed = mounted.run("ls t/0/by-time").stdout.split()
    assert listed
    for name in listed:
        found = mounted.run(f"readlink t/0/by-time/{name}; cat t/0/by-time/{name}; stat -c %s t/0/by-time/{name}")
        assert found.returncode == 0
        times = mounted.run(
            f"date -ud $(stat -Lc @%Y t/0/by-time/{name}) +%s; stat -c %Y t/0/by-time/{name}"
        ).stdout.split()
        assert int(times[0]) >= int(times[1])


def test_disk_use_is_that_of_the_segments(mounted: Mounted, tmp_path: Path) -> None:
    shown = mounted.run("du -s --block-size=512 t/0/segments").stdout.split()[0]
    real = mounted.run(f"du -s --block-size=512 {tmp_path}/store/t-0").stdout.split()[0]
    views = int(mounted.run("ls t/0/segments/*.txt | wc -l").stdout) + 1
    assert 0 <= int(shown) - int(real) <= views
    assert int(mounted.run("du -s --block-size=512 t/0/offset").stdout.split()[0]) <= 13
