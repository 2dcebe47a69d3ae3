from collections.abc import Callable, Collection
from typing import Generic, TypeAlias, TypeVar, final

from typing_extensions import Buffer

from storage.record.kernel.decode import Record
from storage.record.kernel.pinned_buffer import PinnedBuffer
from storage.record.kernel.walk import BatchFrame, EntryFrame

_B = TypeVar("_B", bound=Buffer)

_RoomNeeded: TypeAlias = tuple[int, int, int, int, int, int]

@final
class Output:
    def __new__(cls, target: Buffer, size_bytes: int) -> Output: ...

@final
class ColumnFiller(Generic[_B]):
    def __init__(
        self,
        columns: Collection[str],
        allocate: Callable[[int], _B],
        *,
        first_offset: int,
        last_offset: int,
        include_control: bool,
        check_crc: bool,
    ) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def used(self) -> _RoomNeeded: ...
    @property
    def needed(self) -> _RoomNeeded: ...
    def begin(
        self,
        rows: int,
        key_bytes: int,
        value_bytes: int,
        headers: int,
        header_key_bytes: int,
        header_value_bytes: int,
    ) -> None: ...
    def finish(self) -> dict[str, tuple[_B, int]]: ...
    def wants(self, frame: BatchFrame) -> bool: ...
    def run(self, buffer: PinnedBuffer, start: int, end: int, origin: int) -> int: ...
    def open(self, frame: BatchFrame, records_data: Buffer | None = None) -> None: ...
    def fill(self) -> bool: ...
    def append(self, record: Record, frame: EntryFrame) -> bool: ...
