"""How many bytes each task of a job reads, announced by the job for those who show its progress.

Spark itself only tells how many tasks of a stage are done. A job announces in the thread that runs it, so that the
announcements of jobs in other threads are not mixed up.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Announced: TypeAlias = "list[tuple[int, ...]]"
    """For each stage, the bytes that each of its tasks reads."""

_announced: ContextVar[Announced | None] = ContextVar("announced", default=None)
_NO_STAGE: Final = -1


@contextmanager
def announced() -> Iterator[Announced]:
    """Provide what jobs announce in the block: for each stage, the bytes that each of its tasks reads."""
    found: Announced = []
    token = _announced.set(found)
    try:
        yield found
    finally:
        _announced.reset(token)


def announce(pieces: Iterable[object]) -> None:
    """Announce a stage with a task for each piece. A piece has `size_bytes`, or is a tuple of others."""
    found = _announced.get()
    if found is not None:
        found.append(tuple(_size_bytes(piece) for piece in pieces))


def bytes_done(announced: Iterable[tuple[int, ...]], stages: Mapping[int, tuple[int, int]]) -> tuple[int, int] | None:
    """Return how many bytes are read, and of how many; None if nothing is known of them.

    `stages` has the number of a stage's finished tasks, and of all of them. A stage is known by their number, and tasks
    finish about in their order.
    """
    sizes_of_stages = list(announced)
    total_bytes = sum(map(sum, sizes_of_stages))
    if not total_bytes:
        return None
    done_bytes, left = 0, dict(stages)
    for sizes in sizes_of_stages:
        stage = min((number for number, (_, tasks) in left.items() if tasks == len(sizes)), default=_NO_STAGE)
        completed, _ = left.pop(stage, (0, 0))
        done_bytes += sum(sizes[:completed])
    return done_bytes, total_bytes


def _size_bytes(piece: object) -> int:
    size_bytes = getattr(piece, "size_bytes", None)
    if isinstance(size_bytes, int):
        return size_bytes
    # The parts of a named tuple mean something else.
    parts: tuple[object, ...] = piece if type(piece) is tuple else ()
    return sum(map(_size_bytes, parts))
