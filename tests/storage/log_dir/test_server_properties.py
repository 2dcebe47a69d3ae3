"""A broker's settings file is read as the broker reads it, and refused where it is wrong, with its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.clock import Clock
from storage.errors import ConfigError
from storage.log_dir.settings_file import read_server_properties
from storage.store.store import Store
from storage.testing.memory_files import MemoryFiles

PATH = Path("/server.properties")


def files_with(text: str) -> MemoryFiles:
    files = MemoryFiles()
    with files.open_writing(PATH, create=True) as file:
        file.write_at(0, [text.encode("latin-1")])
    return files


def test_what_it_says_holds_where_a_topic_says_nothing() -> None:
    text = "# ours\nlog.dirs=/a\nlog.retention.hours = 1\nlog.retention.minutes: 5\nnetwork.threads=\\\n  3\n"
    files = files_with(text)
    settings = read_server_properties(files, PATH)
    assert settings["network.threads"] == "3"
    files.make_directory("/a")
    with Store.create(["/a"], files=files, clock=Clock(), broker_settings=settings) as store:
        store.topics.create("silent", 1)
        store.topics.create("own", 1, {"retention.ms": "7"})
        assert store.topics.config("silent").retention_ms == 5 * 60_000
        assert store.topics.config("silent").origin("retention.ms") == "broker"
        assert store.topics.config("own").retention_ms == 7


@pytest.mark.parametrize(
    "line",
    ["log.retention.ms=soon", "log.cleaner.threads=0", "log.cleaner.dedupe.buffer.size=1", "log.roll.ms=\\u12"],
)
def test_what_a_broker_refuses_is_refused_with_the_files_name(line: str) -> None:
    with pytest.raises(ConfigError, match=r".") as refused:
        read_server_properties(files_with(line), PATH)
    assert str(refused.value).endswith("(/server.properties)")
