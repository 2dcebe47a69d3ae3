from typing import final

from typing_extensions import Buffer

from storage.record.kernel.walk import BatchFrame

@final
class Survey:
    @property
    def min_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def keyless(self) -> int: ...
    @property
    def is_consecutive(self) -> bool: ...

def survey(batch: BatchFrame, section: Buffer | None = None) -> Survey: ...
