"""Freed memory is reused without the system's help, up to a bound, and can be given back."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from kafkafs.allocation import KEPT_BYTES_MAX

MEGABYTES = KEPT_BYTES_MAX >> 20

KEPT = """
import resource
from kafkafs.allocation import keep_freed_memory

keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def decode():
    batch = bytearray(8 << 20)
    batch[::4096] = bytes(2048)

decode()
before = faults()
for _ in range(50):
    decode()
print(faults() - before)
"""

GIVEN_BACK = """
from kafkafs.allocation import give_back_freed_memory, keep_freed_memory

keep_freed_memory()

def resident():
    return int(open("/proc/self/statm").read().split()[1]) >> 8

def freed(count):
    blocks = [b"x" * (1 << 20) for _ in range(count)]
    blocks.clear()
    return resident()

begun = resident()
print(freed({some}) - begun, freed({many}) - begun)
give_back_freed_memory()
print(resident() - begun)
"""

ELSEWHERE = """
import ctypes
ctypes.CDLL = lambda _: object()
from kafkafs.allocation import give_back_freed_memory, keep_freed_memory

keep_freed_memory()
give_back_freed_memory()
print("goes on")
"""

BEGUN_AGAIN = """
import os, sys
from kafkafs.allocation import begin_again_with_malloc

begin_again_with_malloc()
print(os.environ["PYTHONMALLOC"], *sys.argv[1:])
"""


def said_by(program: str) -> str:
    return subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True).stdout


needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")


@needs_glibc
def test_the_same_memory_serves_batch_after_batch() -> None:
    """Without the setting each of the fifty batches costs two thousand page faults, or four of huge pages."""
    assert int(said_by(KEPT)) < 50


@needs_glibc
def test_what_is_kept_is_bounded_and_can_be_given_back() -> None:
    kept, given = said_by(GIVEN_BACK.format(some=MEGABYTES // 2, many=4 * MEGABYTES)).splitlines()
    some, many = map(int, kept.split())
    assert some >= MEGABYTES // 2 - 1
    assert many <= MEGABYTES + 8
    assert int(given) <= 8


def test_other_c_libraries_have_no_such_call() -> None:
    assert said_by(ELSEWHERE) == "goes on\n"


@needs_glibc
@pytest.mark.parametrize(("told", "expected"), [({}, "malloc"), ({"PYTHONMALLOC": "pymalloc"}, "pymalloc")])
def test_a_process_begins_again_with_malloc_unless_it_is_told_otherwise(told: dict[str, str], expected: str) -> None:
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONMALLOC"} | told
    command = [sys.executable, "-P", "-c", BEGUN_AGAIN, "an argument"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert said == f"{expected} an argument\n"


CYCLES = """
import gc
from kafkafs.allocation import seldom_look_for_cycles, without_looks_for_cycles

looks = []
gc.callbacks.append(lambda phase, info: looks.append(info["generation"]))
{beginning}
before = gc.get_freeze_count()
with without_looks_for_cycles():
    looks.clear()
    made = [[number] for number in range({objects})]
    seen = bool(looks)
print(seen, gc.isenabled(), gc.get_freeze_count() - before >= {objects})
"""


@pytest.mark.parametrize(
    ("beginning", "objects", "said"),
    [
        ("seldom_look_for_cycles()", 200_000, "False True True"),
        ("seldom_look_for_cycles()", 1_000, "False True False"),
        ("pass", 200_000, "True True False"),
    ],
    ids=["many", "few", "another's process"],
)
def test_nothing_looks_for_cycles_among_very_many_objects(beginning: str, objects: int, said: str) -> None:
    script = CYCLES.format(beginning=beginning, objects=objects)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{said}\n"
