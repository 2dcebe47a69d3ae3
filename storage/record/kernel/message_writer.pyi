from typing import Any

from storage.record.kernel.message_schema import MessageSchema

def write_message(schema: MessageSchema, fields: dict[str, Any]) -> bytes: ...
