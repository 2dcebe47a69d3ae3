"""What a broker's own settings file says, for a store that is to be kept as that broker would keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.config import StoreConfig
from storage.errors import ConfigError
from storage.files import read_small_file
from storage.properties import parse_properties

if TYPE_CHECKING:
    from pathlib import Path

    from storage.files import Files


def read_server_properties(files: Files, path: Path) -> dict[str, str]:
    """Every setting in the file, those of topics and stores being allowed; raises `ConfigError` and `OSError`."""
    try:
        settings = parse_properties(read_small_file(files, path, ConfigError).decode("latin-1"))
        StoreConfig.resolve(settings)
    except ConfigError as error:
        raise ConfigError(error.reason, path=path) from None
    return settings
