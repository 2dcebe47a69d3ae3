"""fio and stress-ng on a partition that is appended to meanwhile: no error.

Of stress-ng's stressors only `fstat` can be pointed at files that are there. The others work on files that they make,
and here none can be made, or on the system's own directories.
KAFKAFS_HYPOTHESIS_PROFILE=prove has each of them go on for half a minute, in which no `stat` may take a second.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest
from mounts import store_mounting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mounts import Mounted

pytestmark = pytest.mark.e2e

IS_PROOF: Final = os.environ.get("KAFKAFS_HYPOTHESIS_PROFILE") == "prove"
RUN_TIME_S: Final = 30 if IS_PROOF else 1
STALL_S_MAX: Final = 1.0
RECORDS: Final = 200_000
MAPPERS: Final = 8
PROBE: Final = """
import itertools, os, select, sys, time
longest = (0.0, "")
paths = ["orders/0/values", "orders/0", ".", "orders/0/info", ".kafkafs/README", "orders/0/offset/latest", "other/0"]
for i in itertools.count():
    for path in [*paths, f"orders/0/offset/{i * 37 % 200000}"]:
        begun = time.perf_counter()
        os.stat(path)
        longest = max(longest, (time.perf_counter() - begun, path))
    if select.select([sys.stdin], [], [], 0.01)[0]:
        break
print(longest[0], longest[1], i)
"""
APPENDERS: Final = (
    "while echo one line at a time; do :; done >> orders/0/append",
    "while echo an open for each line >> orders/0/append; do :; done",
    "while seq 1000000 1010000 | cat >> orders/0/append; do sleep 0.02; done",
)


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    """Mount a store with as many records as make 20 MB of values, in several segments."""
    directory = tmp_path_factory.mktemp("stress")
    with store_mounting(directory) as mount:
        mounted = mount(directory / "store")
        done = mounted.run(
            "mkdir orders other && echo segment.bytes=4194304 >> orders/config"
            f" && seq -f '%0100.f' {RECORDS} >> orders/0/append && echo x >> other/0/append"
        )
        assert (done.returncode, done.stderr) == (0, "")
        yield mounted


@contextmanager
def appending(mounted: Mounted) -> Iterator[None]:
    """Have others append and look meanwhile; fails if nothing was appended, or in a proof if a look took too long."""
    before = (mounted.path / "orders/0/values").stat().st_size
    probe = subprocess.Popen(
        [sys.executable, "-c", PROBE], cwd=mounted.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    appenders = [subprocess.Popen(["bash", "-c", script], cwd=mounted.path) for script in APPENDERS]
    try:
        yield
        assert [process.poll() for process in appenders] == [None] * len(APPENDERS)
    finally:
        for process in appenders:
            process.kill()
            process.wait()
        said, _ = probe.communicate("enough\n", timeout=60)
    longest_s, path, rounds = said.split()
    print(f"the longest stat took {float(longest_s) * 1000:.1f} ms ({path}, of {rounds} rounds)")
    assert not IS_PROOF or float(longest_s) < STALL_S_MAX, said
    assert (mounted.path / "orders/0/values").stat().st_size > before


def fio(mounted: Mounted, path: str, *options: str) -> dict[str, Any]:
    """Have fio read a file that is there; gives its figures of the one group that all jobs are in."""
    if shutil.which("fio") is None:
        pytest.skip("fio is missing")
    command = ["fio", "--name=read", f"--filename={path}", "--readonly", "--allow_file_create=0", "--group_reporting"]
    command += ["--time_based", f"--runtime={RUN_TIME_S}", "--output-format=json", *options]
    done = subprocess.run(command, cwd=mounted.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    assert (figures["error"], figures["read"]["short_ios"], figures["read"]["drop_ios"]) == (0, 0, 0)
    assert figures["read"]["total_ios"] > 0
    return figures


LOADS: Final = {
    "psync": ("--ioengine=psync", "--rw=read", "--bs=128k", "--numjobs=3"),
    "psync random": ("--ioengine=psync", "--rw=randread", "--bs=4k", "--numjobs=3"),
    "direct": ("--ioengine=psync", "--rw=randread", "--bs=64k", "--numjobs=2", "--direct=1"),
    "mmap": ("--ioengine=mmap", "--rw=randread", "--bs=4k", "--numjobs=2"),
    "io_uring": ("--ioengine=io_uring", "--rw=read", "--bs=64k", "--iodepth=8", "--numjobs=2"),
    "io_uring direct": ("--ioengine=io_uring", "--rw=randread", "--bs=16k", "--iodepth=8", "--direct=1"),
    "libaio direct": ("--ioengine=libaio", "--rw=randread", "--bs=16k", "--iodepth=8", "--direct=1"),
    "threads": ("--ioengine=psync", "--rw=randread", "--bs=1k", "--numjobs=8", "--thread"),
}
FILES: Final = {
    "values": "orders/0/values",
    "raw segment": "orders/0/segments/00000000000000000000.log",
    "active segment": "orders/0/segments/",
    "range": "orders/0/offset/1000..50000",
}


@pytest.mark.parametrize("load", LOADS)
def test_fio_reads_what_grows(mounted: Mounted, load: str) -> None:
    with appending(mounted):
        figures = fio(mounted, FILES["values"], *LOADS[load])
    print(f"{load}: {figures['read']['bw'] / 1024:.0f} MiB/s, {figures['read']['iops']:.0f} reads/s")


@pytest.mark.parametrize("name", ["raw segment", "active segment", "range"])
def test_fio_reads_other_views(mounted: Mounted, name: str) -> None:
    path = FILES[name]
    if path.endswith("/"):
        path += max(each.name for each in (mounted.path / path).glob("*.log"))
    with appending(mounted):
        fio(mounted, path, *LOADS["psync random"])
        fio(mounted, path, *LOADS["mmap"])


def test_fio_reads_many_records(mounted: Mounted) -> None:
    paths = ":".join(f"orders/0/offset/{number}" for number in range(0, RECORDS, RECORDS // 100))
    with appending(mounted):
        fio(mounted, paths, "--ioengine=psync", "--rw=read", "--bs=100", "--openfiles=20", "--file_service_type=random")


@pytest.mark.parametrize("directory", ["orders/0/offset", "orders/0/segments", "orders/0", "."])
def test_stress_ng_looks_at_what_is_listed(mounted: Mounted, directory: str) -> None:
    if shutil.which("stress-ng") is None:
        pytest.skip("stress-ng is missing")
    command = ["stress-ng", "--fstat", "2", "--fstat-dir", mounted.path / directory, "--metrics-brief"]
    with appending(mounted):
        done = subprocess.run(
            [*command, "--timeout", f"{max(1, int(RUN_TIME_S))}s"], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    looks = re.search(r"fstat +(\d+)", done.stdout + done.stderr)
    assert looks is not None
    assert int(looks[1]) > 0


MAPPING: Final = """
import mmap, os, sys, time
descriptor, end = os.open(sys.argv[1], os.O_RDONLY), time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    size = os.fstat(descriptor).st_size
    with mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
        last = mapped[size - 1]
    if last != 10:
        sys.exit(f"behind byte {size - 2} there is {last}")
"""


def test_the_size_that_was_told_is_there_to_map(mounted: Mounted) -> None:
    # A size that the kernel hears of and forgets again would be a SIGBUS. Processes of low priority hear late of sizes.
    command = ["nice", "-n", "15", sys.executable, "-c", MAPPING, "orders/0/values", str(RUN_TIME_S)]
    with appending(mounted):
        processes = [
            subprocess.Popen(command, cwd=mounted.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(MAPPERS)
        ]
        said = [process.communicate(timeout=60 + RUN_TIME_S)[1] for process in processes]
    assert [(process.returncode, text) for process, text in zip(processes, said, strict=True)] == [(0, "")] * MAPPERS


def test_what_is_read_meanwhile_is_what_was_written(mounted: Mounted) -> None:
    with appending(mounted):
        first = mounted.run_bytes(f"head -n {RECORDS // 10} orders/0/values", timeout_s=60)
        assert first.stdout == b"".join(b"%0100d\n" % number for number in range(1, RECORDS // 10 + 1))
        for _ in range(3):
            part = mounted.run_bytes(f"tail -c +{RECORDS * 101 + 1} orders/0/values | head -c 300000", timeout_s=60)
            lines = part.stdout.splitlines()[:-1]
            known = {b"one line at a time", b"an open for each line"}
            assert all(line in known or 1_000_000 <= int(line) <= 1_010_000 for line in lines)
            assert len(lines) > 0
