"""Input whose end has not come is counted in the memory of all descriptors, in each form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkafs.content.descriptor_memory import HeldMemory
from kafkafs.locator.views import View
from kafkafs.render import line_assembler, unfinished
from kafkafs.render.intake import new_intake
from kafkafs.render.key_values import KeyValueSyntax
from kafkafs.render.line_assembler import LineAssembler
from kafkafs.render.packing import Packing
from kafkafs.render.unfinished import Unfinished, UnfinishedTooLargeError
from storage.budget import Budget
from storage.errors import MemoryBudgetError
from storage.record import batches_of_rows

if TYPE_CHECKING:
    from kafkafs.render.intake import Intake

MB = 1024 * 1024
FORMS = [View.APPEND, View.APPEND_JSONL, View.APPEND_KV, View.APPEND_RAW, View.APPEND_BATCH]


@pytest.fixture
def budget(monkeypatch: pytest.MonkeyPatch) -> Budget:
    """That of all input."""
    budget = Budget(64 * MB)
    monkeypatch.setattr(unfinished, "MEMORY", budget)
    monkeypatch.setattr(Unfinished.__init__, "__defaults__", (HeldMemory(MB, budget=budget),))
    return budget


def packing() -> Packing:
    return Packing(timestamp_ms=1, max_bytes=1000 * MB)


def begun(form: View) -> bytes:
    """A MiB that completes nothing."""
    if form is not View.APPEND_BATCH:
        return b"x" * MB
    (batch,) = batches_of_rows([(1, None, bytes(2 * MB), ())], base_offset=None, max_bytes=4 * MB)
    return bytes(batch)[:MB]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_many_writers_do_not_exceed_the_budget(form: View, budget: Budget) -> None:
    intakes: list[Intake] = []
    data, refused = begun(form), 0
    for _ in range(100):
        intake = new_intake(form, KeyValueSyntax())
        intakes.append(intake)
        try:
            assert not intake.take(data, packing())
        except MemoryBudgetError:
            refused += 1
    assert refused == 52, "a share of the budget is left for work"
    assert budget.left_bytes == 16 * MB
    intakes[-1].take(b"the rest of what was refused is dropped", packing())
    assert not intakes[-1].finish(packing())
    intakes.clear()
    assert budget.left_bytes == 64 * MB


@pytest.mark.parametrize("form", FORMS[:-1], ids=str)
def test_what_no_budget_has_room_for_is_refused(form: View, budget: Budget) -> None:
    intake = new_intake(form, KeyValueSyntax())
    for _ in range(16):
        intake.take(begun(form), packing())
    with pytest.raises(UnfinishedTooLargeError, match="has more than 16777216 bytes"):
        intake.take(b"x", packing())
    assert budget.left_bytes == 64 * MB
    assert not intake.finish(packing())


def test_a_line_in_progress_is_not_copied_for_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []

    class Counted(Unfinished):
        def add(self, piece: bytes) -> None:
            copied.append(len(piece))
            super().add(piece)

        def take(self) -> bytearray:
            copied.append(len(self))
            return super().take()

    monkeypatch.setattr(line_assembler, "Unfinished", Counted)
    lines = LineAssembler()
    for _ in range(1000):
        assert not lines.take(b"x" * 1000, line_bytes_max=2 * MB)
    assert lines.take(b"y\n", line_bytes_max=2 * MB).joined() == b"x" * 1_000_000 + b"y\n"
    assert sum(copied) == 2_000_000
