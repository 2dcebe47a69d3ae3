"""What must hold for batches that are small on disk and large in memory, in every way of reading them.

Each is read as it is, or refused by an error that says how large it is. Either takes no more memory than a small budget
and what a process needs besides, and afterwards the budget has all of its bytes again.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import kafkafs
from fuzzing.findings import Finding
from fuzzing.limits import peak_growth
from kafkafs.dump.json_form import JsonForm
from kafkafs.dump.log_dump import LogDump, Selection
from kafkafs.dump.text import TextForm
from kafkafs.render.batch_lines import EnvelopeLines, KeyLines, ValueLines, Visible
from storage.budget import LIMIT_BYTES_MIN, MEMORY
from storage.config import TopicConfig
from storage.errors import CorruptBatchError, DecompressedTooLargeError, StorageError
from storage.files import Files
from storage.log.appending import place_sent_batch, read_sent_batch
from storage.log.producers.state import AppendOrigin
from storage.record import Codec, LegacyBatch, RecordBatch, read_batches, recompressed, retaining
from storage.record.columns import COLUMN_TYPES, read_columns
from storage.record.kernel.offset_map import SLOT_BYTES, OffsetMap
from storage.record.kernel.retained import select_retained_records
from storage.verify.batch_check import check_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fuzzing.bomb_inputs import BombInput
    from kafkafs.render.batch_lines import BatchLines
    from storage.record import Batch

BESIDES_BYTES = 48 << 20
"""What reading may take besides the budget: a chunk of columns, a record's headers, what the allocator keeps."""
SURELY_READ_BYTES = 2 << 20
"""What no way of reading may refuse, with an object for each record and header counted in."""
OBJECT_BYTES = 256
HEADERS_OF_A_RECORD_MAX = 1_000_000
HEADER_BYTES = 192
COPIES_OF_A_LINE = 16
"""What a dump as JSON takes of a record's own size: six bytes for one, as often as they are copied."""
DUMP = "the dump"
FAR = 2**63 - 1
SEED = bytes(range(16))


def check_bomb(directory: Path, given: BombInput) -> Counter[str]:
    """Read the batch in one way, with a budget of the smallest size, and return what came of it. Raises `Finding`."""
    name, read = _WAYS[given.choice % len(_WAYS)]
    limit_bytes = MEMORY.limit_bytes
    MEMORY.limit_bytes = LIMIT_BYTES_MIN
    try:
        with peak_growth() as growth:
            outcome = _outcome(name, read, directory, given)
        if growth.peak_bytes > _bytes_max(name, given):
            raise Finding(f"{name} of a bomb takes too much memory", f"{growth.peak_bytes >> 20} MiB, {given.kind}")
        kept_bytes = LIMIT_BYTES_MIN - MEMORY.left_bytes
        if kept_bytes:
            raise Finding(f"{name} of a bomb keeps memory", f"{kept_bytes} bytes, {given.kind}")
    finally:
        MEMORY.limit_bytes = limit_bytes
    return Counter({f"{name}: {outcome}": 1})


def _bytes_max(name: str, given: BombInput) -> int:
    """How much reading may take: the budget, and what has a limit of its own, the headers and the line of a record."""
    headers_bytes = min(given.headers // given.records, HEADERS_OF_A_RECORD_MAX) * HEADER_BYTES
    is_value = given.records == 1 and not given.headers
    line_bytes = given.decoded_bytes * COPIES_OF_A_LINE if name == DUMP and is_value else 0
    return LIMIT_BYTES_MIN + BESIDES_BYTES + headers_bytes + line_bytes


def _outcome(name: str, read: Callable[[Path, BombInput], None], directory: Path, given: BombInput) -> str:
    try:
        read(directory, given)
    except DecompressedTooLargeError as error:
        if not re.search(r"\d", error.reason):
            raise Finding("a bomb is refused without a number", error) from error
        if given.decoded_bytes + (given.records + given.headers) * OBJECT_BYTES <= SURELY_READ_BYTES:
            raise Finding(f"{name} of what is small is refused", error) from error
        return "refused"
    except CorruptBatchError as error:
        raise Finding(f"{name} of a sound bomb finds damage", error) from error
    except StorageError as error:
        return f"refused: {type(error).__name__}"
    return "read"


def _expect(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise Finding(f"a bomb has another number of {what}", f"{found}, not {expected}")


def _batch(given: BombInput) -> Batch:
    (batch,) = read_batches(given.data)
    return batch


def _records(_: Path, given: BombInput) -> None:
    """All records at once, which is what the budget counts objects for."""
    _expect("records", len(list(_batch(given).records())), given.records)


def _headers(_: Path, given: BombInput) -> None:
    _expect("headers", sum(len(record.headers) for record in _batch(given).records()), given.headers)


def _columns(_: Path, given: BombInput) -> None:
    rows = headers = 0
    for chunk in read_columns(given.data, columns=tuple(COLUMN_TYPES)):
        rows += chunk.num_rows
        headers += len(chunk.column("headers").flatten())
    _expect("rows", rows, given.records)
    _expect("headers in columns", headers, given.headers)


def _rendering(lines: BatchLines) -> Callable[[Path, BombInput], None]:
    def render(_: Path, given: BombInput) -> None:
        batch = _batch(given)
        end = batch.position + batch.size_bytes
        if given.choice & 0x100:
            size_bytes = lines.render(batch, Visible(FAR), end, only_size=True).size_bytes
            if size_bytes > SURELY_READ_BYTES:
                return
            _expect("bytes of lines", lines.render(batch, Visible(FAR), end, only_size=False).size_bytes, size_bytes)
        else:
            _expect(
                "lines",
                bytes(lines.render(batch, Visible(FAR), end, only_size=False).lines).count(b"\n"),
                given.records,
            )

    return render


def _dump(directory: Path, given: BombInput) -> None:
    path = directory / f"{0:020}.log"
    path.write_bytes(given.data)
    form = TextForm(with_data=bool(given.choice & 0x200)) if given.choice & 0x100 else JsonForm()
    with Files().open_reading(path) as file:
        for run in LogDump(file, form, Selection()):
            for _ in run:
                pass


def _check(_: Path, given: BombInput) -> None:
    """All records are at the same offset, which is damage, but how many they are is counted first."""
    try:
        check_batch(_batch(given))
    except DecompressedTooLargeError:
        raise
    except CorruptBatchError:
        if given.records == 1:
            raise


def _compaction(_: Path, given: BombInput) -> None:
    batch = _batch(given)
    if isinstance(batch, LegacyBatch):
        return
    records_data = batch.records_data() if batch.codec else None
    offsets = OffsetMap(1024 * SLOT_BYTES, 1.0, SEED)
    offsets.fill(batch, records_data, 0)
    retaining(batch, select_retained_records(batch, records_data, offsets, keep_tombstones=True))


def _recompression(_: Path, given: BombInput) -> None:
    batch = _batch(given)
    if isinstance(batch, RecordBatch):
        recompressed(batch, Codec.ZSTD)


def _append(_: Path, given: BombInput) -> None:
    config = TopicConfig.resolve({"max.message.bytes": str(2**31 - 1)})
    sent = read_sent_batch(given.data, config, AppendOrigin.CLIENT)
    place_sent_batch(sent, config, next_offset=5, leader_epoch=0, now_ms=2**40)


def _library(directory: Path, given: BombInput) -> None:
    """Records one after another; a reader of a program keeps none."""
    log = directory / "bomb-0" / f"{0:020}.log"
    log.parent.mkdir(exist_ok=True)
    for each in log.parent.iterdir():
        each.unlink()
    log.write_bytes(given.data)
    with kafkafs.open(directory) as store:
        for record in store["bomb"][0].records():
            del record


_WAYS: tuple[tuple[str, Callable[[Path, BombInput], None]], ...] = (
    ("reading the records", _records),
    ("reading the headers", _headers),
    ("reading the columns", _columns),
    ("rendering the values", _rendering(ValueLines())),
    ("rendering the keys", _rendering(KeyLines())),
    ("rendering the envelopes", _rendering(EnvelopeLines("bomb", 0))),
    (DUMP, _dump),
    ("the check", _check),
    ("the compaction", _compaction),
    ("the recompression", _recompression),
    ("the append", _append),
    ("the library's reading", _library),
)
