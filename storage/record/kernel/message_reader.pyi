from typing import Any, Final

from storage.record.kernel.message_schema import MessageSchema

OBJECTS_MAX: Final[int]
UNKNOWN_TAGGED_FIELDS: Final[str]

def read_message(schema: MessageSchema, data: bytes, position: int = 0) -> tuple[dict[str, Any], int]: ...
