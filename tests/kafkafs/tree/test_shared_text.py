"""Texts that descriptors show take memory once for all that show the same, and count while they are open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkafs.content.descriptor_memory import HeldMemory
from kafkafs.tree import generated_file
from kafkafs.tree.generated_file import BytesReading
from kafkafs.tree.shared_text import LastTexts, SharedTexts
from storage.budget import Budget
from storage.errors import MemoryBudgetError

if TYPE_CHECKING:
    from collections.abc import Callable

MB = 1024 * 1024


@pytest.fixture
def budget() -> Budget:
    return Budget(64 * MB)


@pytest.fixture
def texts(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> SharedTexts:
    texts = SharedTexts(HeldMemory(MB, budget=budget))
    monkeypatch.setattr(generated_file, "TEXTS", texts)
    return texts


def opened(data: Callable[[], bytes]) -> BytesReading:
    return BytesReading(data())


@pytest.mark.usefixtures("texts")
def test_descriptors_share_a_text(budget: Budget) -> None:
    readings = [opened(lambda: bytes(10 * MB)) for _ in range(100)]
    assert len({id(each._data) for each in readings}) == 1
    assert 53 * MB < budget.left_bytes < 54 * MB
    assert readings[7].read(10 * MB - 3, 10) == bytes(3)
    for each in readings:
        each.close()
    assert budget.left_bytes == 64 * MB


@pytest.mark.usefixtures("texts")
def test_different_texts_are_refused_once_they_take_the_budget(budget: Budget) -> None:
    readings = [BytesReading(b"%d" % number + bytes(10 * MB)) for number in range(4)]
    with pytest.raises(MemoryBudgetError, match="bytes of this text take more memory than is left of the budget"):
        BytesReading(b"4" + bytes(10 * MB))
    assert readings[0].read(0, 1) == b"0", "what is open stays"
    assert BytesReading(b"little").read(0, 9) == b"little"
    readings.pop().close()
    assert BytesReading(b"4" + bytes(10 * MB)).read(0, 1) == b"4"
    assert budget.left_bytes > 16 * MB


def test_the_last_version_is_kept_until_others_need_its_memory(texts: SharedTexts, budget: Budget) -> None:
    last = LastTexts(texts, budget=budget)
    known = id(last.put("topics", 1, bytes(MB)))
    found = last.get("topics", 1)
    assert id(found) == known
    assert last.get("brokers", 1) is None
    del found
    budget.shrink_caches()
    assert last.get("topics", 1) is None
    assert budget.left_bytes == 64 * MB


def test_an_earlier_version_is_let_go(texts: SharedTexts, budget: Budget) -> None:
    last = LastTexts(texts, budget=budget)
    last.put("topics", 1, bytes(MB))
    assert last.get("topics", 2) is None
    assert budget.left_bytes == 64 * MB
