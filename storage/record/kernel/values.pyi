from collections.abc import Callable
from typing import Literal, final, overload

from typing_extensions import Buffer

from storage.record.kernel.matching import Criteria
from storage.record.kernel.walk import BatchFrame

@final
class Run: ...

@overload
def run_lines(
    first: BatchFrame,
    end_position: int,
    end_offset: int,
    with_transactions: bool,
    *,
    of_keys: bool = False,
    decompressors: tuple[Callable[[memoryview], Buffer], ...] = (),
    line_bytes_max: int = ...,
    only_size: Literal[False] = False,
    criteria: Criteria | None = None,
) -> tuple[int, int, bytes]: ...
@overload
def run_lines(
    first: BatchFrame,
    end_position: int,
    end_offset: int,
    with_transactions: bool,
    *,
    of_keys: bool = False,
    decompressors: tuple[Callable[[memoryview], Buffer], ...] = (),
    line_bytes_max: int = ...,
    only_size: Literal[True],
    criteria: Criteria | None = None,
) -> tuple[int, int, int]: ...
@overload
def run_lines(
    first: BatchFrame,
    end_position: int,
    end_offset: int,
    with_transactions: bool,
    *,
    of_keys: bool = False,
    decompressors: tuple[Callable[[memoryview], Buffer], ...] = (),
    line_bytes_max: int = ...,
    only_size: bool,
    criteria: Criteria | None = None,
) -> tuple[int, int, bytes | int]: ...
