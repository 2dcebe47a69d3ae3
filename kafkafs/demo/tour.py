"""The tour of the demo: commands for a shell in the current directory, each with its purpose.

There is a tour of a mount, and one of the store alone where nothing can be mounted. The commands work in any order and
any number of times, until the last one unmounts the store.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.demo.topics import CLICKS, FIRST_ORDER, ORDER_COUNT, ORDERS, PAYMENTS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_ORDER: Final = shlex.quote(f'{{"order":{FIRST_ORDER + ORDER_COUNT},"item":"tea"}}')
_FIRST_LOG: Final = f"{0:020}.log"
_FAILED: Final = "' 500 '"


class Stop(NamedTuple):
    """A command, and what it shows."""

    shows: str
    command: str


def mount_tour(kafkafs: str, store: Path, mount_point: Path) -> list[Stop]:
    """Return the tour of a mount, whose last command unmounts it; `kafkafs` is the command to call kafkafs by."""
    root, from_store = shlex.quote(str(mount_point)), shlex.quote(str(store))
    return [
        Stop("the topics, and the files of a partition", f"ls {root} {root}/{ORDERS}/0"),
        Stop("all of a record: key, headers, times and value", f"cat {root}/{ORDERS}/0/offset/42.json"),
        Stop("values, a line each; tail -f follows them", f"tail -n 3 {root}/{ORDERS}/1/values"),
        Stop("any tool reads them: requests that failed", f"grep -c {_FAILED} {root}/{CLICKS}/0/values"),
        Stop("a line that is written is a record", f"echo {_ORDER} >> {root}/{ORDERS}/0/append"),
        Stop("the records of the last fifteen minutes", f"cat {root}/{ORDERS}/0/by-time/-15m..now.jsonl"),
        Stop("transactions that hang, or were aborted", f"cat {root}/{PAYMENTS}/0/transactions"),
        Stop("how far a group has read, and its lag", f"cat {root}/.kafkafs/groups/statistics"),
        Stop(
            "a file of the log, as kafka-dump-log prints it", f"head -n 4 {root}/{ORDERS}/0/segments/{_FIRST_LOG}.txt"
        ),
        Stop("a new topic", f"mkdir -p {root}/notes && echo hello >> {root}/notes/0/append"),
        Stop(
            "the same without a mount, in kcat's format",
            f"{kafkafs} cat {from_store} {ORDERS}/0/offset/last-3.. -f '%T %k %s\\n'",
        ),
        Stop("the end of the tour", f"{kafkafs} umount {root}"),
    ]


def store_tour(kafkafs: str, store: Path) -> list[Stop]:
    """Return the tour of a store that is not mounted."""
    root = shlex.quote(str(store))
    return [
        Stop("the topics", f"{kafkafs} ls {root}"),
        Stop("the files of a partition", f"{kafkafs} ls -l {root} {ORDERS}/0"),
        Stop("all of a record: key, headers, times and value", f"{kafkafs} cat {root} {ORDERS}/0/offset/42.json"),
        Stop("values, a line each", f"{kafkafs} cat {root} {ORDERS}/1/values | tail -n 3"),
        Stop(
            "any tool reads them: requests that failed", f"{kafkafs} cat {root} {CLICKS}/0/values | grep -c {_FAILED}"
        ),
        Stop("a line that is written is a record", f"echo {_ORDER} | {kafkafs} append {root} {ORDERS}/0/append"),
        Stop("the records of the last fifteen minutes", f"{kafkafs} cat {root} {ORDERS}/0/by-time/-15m..now.jsonl"),
        Stop("records in kcat's format", f"{kafkafs} cat {root} {ORDERS}/0/offset/last-3.. -f '%T %k %s\\n'"),
        Stop("transactions that hang, or were aborted", f"{kafkafs} cat {root} {PAYMENTS}/0/transactions"),
        Stop("how far each group has read, and its lag", f"{kafkafs} groups {root}"),
        Stop(
            "a file of the log, as kafka-dump-log prints it",
            f"{kafkafs} dump {root}/{ORDERS}-0/{_FIRST_LOG} | head -n 4",
        ),
        Stop("whether all that is on disk is sound", f"{kafkafs} verify {root}"),
    ]


def tour_text(stops: Iterable[Stop]) -> str:
    """Return the tour as it is printed: only commands are indented."""
    return "".join(f"{stop.shows}\n  {stop.command}\n" for stop in stops)
