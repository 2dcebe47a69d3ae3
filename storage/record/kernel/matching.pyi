from typing import final

@final
class Criteria:
    def __init__(
        self,
        first_offset: int = ...,
        end_offset: int = ...,
        *,
        key: tuple[bytes | None, ...] = (),
        header_name: bytes | None = None,
        header_value: tuple[bytes | None, ...] = (),
        value_bytes_min: int = -1,
        value_bytes_max: int = ...,
        producer_id: int | None = None,
        of_transactions: bool = False,
    ) -> None: ...
