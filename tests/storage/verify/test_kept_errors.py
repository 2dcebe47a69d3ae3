"""Damage that is kept does not keep what was decoded when it was found, not even until a search for cycles."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING
from weakref import ref

import pytest

from storage.clock import Clock
from storage.errors import MalformedRecordsError, forget_frames
from storage.files import Files
from storage.record import batches_of_rows
from storage.store.store import Store
from storage.verify import damaged_ranges, log_check

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Decoded:
    """Stands for the records of a large batch."""


@pytest.fixture(autouse=True)
def no_search() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_what_was_decoded_of_a_damaged_batch_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[ref[Decoded]] = []

    def check(_: object) -> None:
        records = Decoded()
        decoded.append(ref(records))
        raise MalformedRecordsError("no records")

    monkeypatch.setattr(log_check, "check_batch", check)
    with Store.create([tmp_path / "store"], files=Files(), clock=Clock()) as store:
        store.topics.create("t", 1)
        log = store.log_to_write("t", 0)
        (batch,) = batches_of_rows([(0, b"", b"value", ())], base_offset=None)
        log.append_as_leader(batch, leader_epoch=0)
        view = log.view
        found = [damaged_ranges(part) for part in view.slices(0)]
        assert [len(each.ranges) for each in found] == [1]
        assert [each() for each in decoded] == [None]


def test_causes_and_contexts_are_released_too() -> None:
    def fail() -> ref[Decoded]:
        records = Decoded()
        kept.append(ref(records))
        raise ValueError

    kept: list[ref[Decoded]] = []
    errors: list[Exception] = []
    for is_cause in (False, True):
        try:
            try:
                fail()
            except ValueError as error:
                raise KeyError from (error if is_cause else None)
        except KeyError as error:
            errors.append(error)
    assert [each() is not None for each in kept] == [True, True]
    for each in errors:
        forget_frames(each)
    assert [each() for each in kept] == [None, None]
