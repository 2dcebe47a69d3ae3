"""The settings file keeps all its entries, written by kafkafs or by hand."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import ConfigError
from storage.files import Files
from storage.ids import format_id
from storage.log_dir.settings_file import (
    SETTINGS_NAME,
    KnownTopic,
    SettingsFile,
    SettingsFileContents,
    read_settings_file,
    write_settings_file,
)
from storage.testing.faults import Cut, CutError, Effect, InterruptError
from storage.testing.memory_files import MemoryFiles

ONE, TWO = UUID(int=1 << 100), UUID(int=2 << 100)
SOME = SettingsFileContents(
    is_made_here=True,
    topics={"a.b": KnownTopic(ONE, is_made_here=True, settings={"retention.ms": "5"}), "c": KnownTopic(None)},
    void={"a.b-0": ONE, "old-1": None},
    others={"/later": "x", "loose": "y"},
)

ids = st.none() | st.uuids(version=4)
names = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)
keys = st.text(min_size=1).filter(lambda key: key not in {"topic.id", "made"})


def write(text: str) -> MemoryFiles:
    files = MemoryFiles()
    with files.open_writing(f"/{SETTINGS_NAME}", create=True) as file:
        file.write_at(0, [text.encode()])
    return files


def test_what_is_written() -> None:
    files = MemoryFiles()
    write_settings_file(files.directory("/"), SOME)
    assert files.read(f"/{SETTINGS_NAME}").decode().splitlines() == [
        "#Settings of the topics in these log directories, kept by kafkafs; brokers ignore this file.",
        "/version=1",
        "/made=true",
        "/later=x",
        "loose=y",
        f"/void/a.b-0={format_id(ONE)}",
        "/void/old-1=",
        f"a.b/topic.id={format_id(ONE)}",
        "a.b/made=true",
        "a.b/retention.ms=5",
    ]


@pytest.mark.property
@given(
    st.builds(
        SettingsFileContents,
        st.booleans(),
        st.just(value=False),
        st.dictionaries(
            names, st.builds(KnownTopic, st.uuids(version=4), st.booleans(), st.dictionaries(keys, st.text()))
        ),
        st.dictionaries(names.map(lambda name: f"{name}-0"), ids),
        st.dictionaries(names.map(lambda name: f"/x{name}") | names, st.text()),
    )
)
def test_what_is_written_is_read(settings: SettingsFileContents) -> None:
    files = MemoryFiles()
    write_settings_file(files.directory("/"), settings)
    assert read_settings_file(files.directory("/")) == settings


def test_what_people_write_is_read() -> None:
    found = read_settings_file(write("! by hand\n orders/retention.ms : 7 \nthings/no.such = maybe\n").directory("/"))
    assert found == SettingsFileContents(
        topics={
            "orders": KnownTopic(None, settings={"retention.ms": "7 "}),
            "things": KnownTopic(None, settings={"no.such": "maybe"}),
        }
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/version=2\n", "a newer kafkafs wrote it"),
        ("a/topic.id=x\n", "is not an id"),
        ("/void/a-0=x\n", "is not an id"),
        ("a=\\u00g0\n", "hexadecimal"),
    ],
)
def test_what_cannot_be_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        read_settings_file(write(text).directory("/"))
    assert caught.value.path == f"/{SETTINGS_NAME}"


def test_a_topic_is_known_by_its_maker_or_its_policy() -> None:
    assert KnownTopic(ONE, is_made_here=True).is_complete
    assert KnownTopic(ONE, settings={"cleanup.policy": "delete"}).is_complete
    assert not KnownTopic(ONE, settings={"retention.ms": "1"}).is_complete


def test_the_file_is_where_it_was_found(tmp_path) -> None:
    directories = [tmp_path / name for name in "ab"]
    for directory in directories:
        directory.mkdir()
    files = Files()
    assert SettingsFile.find(list(map(files.directory, directories))).directory.path == str(directories[0])
    write_settings_file(files.directory(directories[1]), SOME)
    found = SettingsFile.find(list(map(files.directory, directories)))
    assert (found.directory.path, found.current.is_made_here) == (str(directories[1]), True)


def test_the_first_of_two_files_is_taken(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "b").mkdir()
    write_settings_file(Files().directory(tmp_path), SOME)
    write_settings_file(Files().directory(tmp_path / "b"), SettingsFileContents())
    assert SettingsFile.find([Files().directory(tmp_path), Files().directory(tmp_path / "b")]).current.is_made_here
    assert f"{tmp_path / 'b' / SETTINGS_NAME} is passed over" in caplog.text


@pytest.mark.parametrize("effect", Effect)
def test_a_replacement_happens_or_not(effect: Effect) -> None:
    """At every step, for the process that goes on and for the one that comes after."""
    step = 0
    while True:
        files = write("a/made=true\n")
        file = SettingsFile.find([files.directory("/")])
        old, new = file.current, file.current.with_topic("b", KnownTopic(TWO))
        files.cut = Cut(files.steps + step, effect)
        try:
            file.replace(new)
        except (CutError, OSError, MemoryError, InterruptError):
            pass
        else:
            break
        if effect is not Effect.DEATH:
            assert file.current == read_settings_file(files.directory("/"))
        assert read_settings_file(files.after_process_death().directory("/")) in (old, new)
        step += 1
    assert step >= 4


def test_a_file_of_another_cluster_says_nothing_until_a_setting_is_changed(caplog: pytest.LogCaptureFixture) -> None:
    files = write("/cluster.id=theirs\n/made=true\norders/retention.ms=7\n/void/orders-0=\n")
    assert SettingsFile.find([files.directory("/")], "theirs").current.is_made_here
    assert SettingsFile.find([files.directory("/")]).current.topics["orders"].settings == {"retention.ms": "7"}
    assert not caplog.messages
    file = SettingsFile.find([files.directory("/")], "ours")
    file.reload()
    assert file.current == SettingsFileContents()
    (said,) = caplog.messages
    assert said.startswith("no setting in /kafkafs-topics.properties holds: it is of the cluster theirs, and ")
    file.replace(SettingsFileContents(topics={"orders": KnownTopic(None, settings={"retention.ms": "8"})}))
    assert read_settings_file(files.directory("/")) == file.current
    assert file.current.cluster_id == "ours"


def test_a_file_of_before_clusters_were_named_holds_and_is_given_the_name() -> None:
    files = write("/made=true\norders/retention.ms=7\n")
    file = SettingsFile.find([files.directory("/")], "ours")
    assert file.current.is_made_here
    file.replace(file.current.without_topic("orders"))
    found = read_settings_file(files.directory("/"))
    assert found is not None
    assert (found.cluster_id, found.is_made_here) == ("ours", True)
