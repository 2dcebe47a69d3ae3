"""No checksum covers a batch's base offset and leader epoch: a flipped bit there costs at most its own batch."""

from __future__ import annotations

from struct import Struct

from hypothesis import example, given, settings
from hypothesis import strategies as st
from replica_directories import ReplicaDirectory, Written

from storage.replicas import Replica, scan_replica
from storage.segment.scan import LogScan
from storage.testing.memory_files import MemoryFiles

EXAMPLES = min(settings().max_examples, 2000)
COUNT = 40
OFFSET, EPOCH = (0, Struct(">q")), (12, Struct(">i"))


def replica_of(*, a_segment: int = COUNT, epochs: tuple[int, ...] = (3,)) -> ReplicaDirectory:
    batches = [Written(epochs[number * len(epochs) // COUNT]) for number in range(COUNT)]
    return ReplicaDirectory(MemoryFiles(), "/a", batches, a_segment=a_segment)


def flip(replica: ReplicaDirectory, number: int, field: tuple[int, Struct], bit: int) -> None:
    """Flip a bit of a field of a batch, counted from the lowest."""
    name, position, _ = replica.places[number]
    at, struct = field
    with replica.files.open_writing(f"{replica.path}/{name}") as file:
        (value,) = struct.unpack(file.read_at(position + at, struct.size))
        file.write_at(position + at, [struct.pack(value ^ 1 << bit)])


def values(replica: Replica) -> list[int]:
    found: list[int] = []
    for run in replica.runs:
        with replica.directory.open_reading(run.name) as file:
            for batch in LogScan(file, start=run.begin, end=run.end):
                assert run.first_offset <= batch.base_offset <= batch.last_offset < run.next_offset
                found += [int(record.value) for record in batch.records()]
    return found


@settings(max_examples=EXAMPLES)
@given(number=st.integers(0, COUNT - 1), bit=st.integers(0, 62), a_segment=st.sampled_from([7, COUNT]))
def test_an_offset_costs_its_own_batch(number: int, bit: int, a_segment: int) -> None:
    written = replica_of(a_segment=a_segment)
    flip(written, number, OFFSET, bit)
    found = scan_replica(written.directory, decodes=True)
    others = [each for each in range(COUNT) if each != number]
    is_first = number % a_segment == 0
    if is_first or values(found) == list(range(COUNT)):  # a segment may begin late, and the last one end late
        assert [each for each in values(found) if each != number] == others
    else:
        assert values(found) == others
        ((name, position, end, offset, kind, _),) = found.damages
        assert (name, position, end - position, kind) == (*written.places[number], "offsets")
        assert offset == number


@settings(max_examples=EXAMPLES)
@given(numbers=st.sets(st.integers(0, COUNT - 1), max_size=4), bit=st.integers(3, 30))
def test_damage_beside_an_offset_that_is_too_high_costs_no_more(numbers: set[int], bit: int) -> None:
    written = replica_of()
    lifted = max(numbers, default=0)
    flip(written, lifted, OFFSET, bit)
    for number in numbers - {lifted}:
        written.damage(number)
    if lifted + 1 < COUNT:
        name, position, _ = written.places[lifted + 1]
        with written.files.open_writing(f"{written.path}/{name}") as file:
            file.write_at(position + 8, [b"\x7f"])  # its length
    kept = values(scan_replica(written.directory, decodes=True))
    assert set(range(COUNT)) - numbers - {lifted, lifted + 1} <= set(kept)


@settings(max_examples=EXAMPLES)
@given(number=st.integers(0, COUNT - 1), bit=st.integers(0, 30))
@example(number=12, bit=0)  # only one batch of epoch 2 follows, before the first of epoch 5
def test_an_epoch_of_one_batch_is_odd_and_the_others_stay(number: int, bit: int) -> None:
    written = replica_of(epochs=(2, 5, 9))
    expected = scan_replica(written.directory).epochs
    flip(written, number, EPOCH, bit)
    found = scan_replica(written.directory)
    assert values(found) == list(range(COUNT))
    bounds = [each.offset for each in expected]
    if number not in (*bounds, *(bound - 1 for bound in bounds), COUNT - 1):  # there another epoch may begin or end
        assert found.epochs == expected
        ((name, begin, end, _, there),) = found.odd_epochs
        assert (name, begin, end - begin) == written.places[number]
        assert there == max(each.epoch for each in expected if each.offset <= number)


def test_a_checkpoint_counts_where_no_batch_contradicts_it() -> None:
    written = replica_of(epochs=(2, 5))
    written.damage(20)
    assert [tuple(each) for each in scan_replica(written.directory).epochs] == [(2, 0), (5, 21)]
    written.directory.replace("leader-epoch-checkpoint", b"0\n3\n2 0\n5 20\n7 99\n")
    assert [tuple(each) for each in scan_replica(written.directory).epochs] == [(2, 0), (5, 20)]
    written.directory.replace("leader-epoch-checkpoint", b"0\n2\n2 0\n5 7\n")
    assert [tuple(each) for each in scan_replica(written.directory).epochs] == [(2, 0), (5, 21)]
