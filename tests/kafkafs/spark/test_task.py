"""What a process has loaded is left out of collections; what it makes afterwards is not."""

from __future__ import annotations

import subprocess
import sys

SETTLES = """
import gc, weakref
from kafkafs.spark.task import settle

class Made:
    def __init__(self):
        self.itself = self

settle()
frozen = gc.get_freeze_count()
settle()
made = weakref.ref(Made())
gc.collect()
print(frozen > 1000, gc.get_freeze_count() == frozen, len(gc.get_objects()) < frozen, made())
"""


def test_a_process_settles_once() -> None:
    said = subprocess.run([sys.executable, "-c", SETTLES], capture_output=True, text=True, check=True).stdout
    assert said == "True True True None\n"
