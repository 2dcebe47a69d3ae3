"""Directories in an object store, against a real S3 server: what it holds, at each failure of each request."""

from __future__ import annotations

import errno
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from object_stores import BUCKET, Failure, Request

from storage.errors import CorruptMetadataError, NotAStoreError, ObjectStoreError, ReadOnlyStoreError
from storage.files import Files, is_in_object_store, store_path
from storage.files.object_file import AHEAD_BYTES_MAX, AHEAD_BYTES_MIN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from object_stores import S3Server

    from storage.files import Directory

LOG = "00000000000000000000.log"
DATA = bytes(range(256)) * 8192  # 2 MiB


@pytest.fixture
def made(tmp_path: Path) -> Path:
    partition = tmp_path / "store" / "orders-0"
    partition.mkdir(parents=True)
    (partition / LOG).write_bytes(DATA)
    (partition / LOG.replace(".log", ".index")).write_bytes(DATA[: 300 * 1024])
    (partition.parent / "meta.properties").write_bytes(b"version=1\n")
    (partition.parent / "empty").write_bytes(b"")
    return partition.parent


@pytest.fixture
def uri(made: Path, s3: S3Server) -> str:
    return s3.put(made)


def test_what_it_says_is_what_the_directory_says(made: Path, uri: str) -> None:
    store, due = Files().directory(uri), Files().directory(made)
    assert sorted(store.names()) == sorted(due.names())
    told = {name: (each.size_bytes, each.is_directory, each.is_file) for name, each in store.statuses().items()}
    assert told == {
        name: (0 if each.is_directory else each.size_bytes, each.is_directory, each.is_file)
        for name, each in due.statuses().items()
    }
    partition = store.at("orders-0")
    assert (partition.name, partition.above, str(partition)) == ("orders-0", store, f"{uri}/orders-0")
    assert (store.exists(), partition.exists(), store.at("no-0").exists()) == (True, True, False)
    assert store.status("nothing") is None
    assert store.strangers() == {}
    assert store.read("empty") == b""
    assert store.read_small("meta.properties", CorruptMetadataError, 10) == b"version=1\n"
    with pytest.raises(CorruptMetadataError, match="has 10 bytes, and a file of its kind is read up to 9"):
        store.read_small("meta.properties", CorruptMetadataError, 9)
    with partition.open_reading(LOG) as file:
        assert file.size_bytes() == len(DATA)
        assert file.read_at(100_000, 50) == DATA[100_000:100_050]
        assert file.read_at(len(DATA) - 3, 50) == DATA[-3:]
        assert file.read_at(len(DATA), 50) == file.read_at(0, 0) == b""
        assert (file.data_from(7), file.hole_from(7)) == (7, len(DATA))
    for missing in (lambda: store.open_reading("nothing"), store.at("no-0").names, store.at("no-0").statuses):
        with pytest.raises(FileNotFoundError):
            missing()
    with pytest.raises(NotADirectoryError):
        store.at("empty").names()
    assert pickle.loads(pickle.dumps(partition)) == partition


@pytest.mark.parametrize("path", ["{}/orders-0", "{}/orders-0/"])
def test_a_path_of_pathlib_leads_to_the_same_place(path: str, uri: str) -> None:
    shortened = path.format(uri).replace("s3://", "s3:/")
    partition = Files().directory(shortened)
    assert partition == Files().partition(f"{uri}/orders-0") == Files().add_root(uri).at("orders-0")
    directory, name = Files().parent(f"{shortened.rstrip('/')}/{LOG}")
    assert (directory, name) == (partition, LOG)
    assert Files().open_reading(f"{uri}/orders-0/{LOG}").read_at(0, 4) == DATA[:4]


def test_keys_that_are_no_paths_are_no_names(s3: S3Server, uri: str) -> None:
    for name in ("/x", "orders-1/", "orders-1//x", "orders-0", "a b%2F&/\u2028"):
        s3.client.put_object(Bucket=BUCKET, Key=s3.key(uri, name), Body=b"x")
    store = Files().directory(uri)
    assert sorted(store.names()) == ["a b%2F&", "empty", "meta.properties", "orders-0", "orders-1"]
    assert {name for name, each in store.statuses().items() if each.is_directory} == {"a b%2F&", "orders-0", "orders-1"}
    assert store.at("orders-1").names() == []
    assert store.at("a b%2F&").read("\u2028") == b"x"


def test_each_byte_comes_once_and_ever_more_at_a_time(s3: S3Server, uri: str) -> None:
    with Files().directory(uri).at("orders-0").open_reading(LOG) as file, s3.counted() as requests:
        found = b"".join(file.read_at(position, 1000) for position in range(0, len(DATA), 1000))
        assert found == DATA
        sizes = [each.size_bytes for each in requests if each.kind == "get"]
        assert sum(sizes) == len(DATA)
        assert sizes == [AHEAD_BYTES_MIN * factor for factor in (1, 2, 4, 8)] + [AHEAD_BYTES_MIN]
        del requests[:]
        assert file.read_at(0, len(DATA)) == DATA
        assert file.read_cached_at(5, 5) == DATA[5:10]
        assert requests == []
    assert len(DATA) < AHEAD_BYTES_MAX


def test_an_index_comes_whole_and_a_listing_once(s3: S3Server, uri: str) -> None:
    with s3.counted() as requests:
        partition = Files().directory(uri).at("orders-0")
        names = partition.names()
        assert all(partition.status(name) is not None for name in names)
        assert [each.kind for each in requests] == ["list"]
        with partition.open_reading(LOG.replace(".log", ".index")) as file:
            assert file.read_at(200_000, 8) + file.read_at(8, 8) == DATA[200_000:200_008] + DATA[8:16]
        assert [each.size_bytes for each in requests if each.kind == "get"] == [300 * 1024]


def is_get(request: Request) -> bool:
    return request.kind == "get"


def is_head(request: Request) -> bool:
    return request.kind == "head"


def is_list(request: Request) -> bool:
    return request.kind == "list"


def listed(directory: Directory) -> object:
    return directory.names()


def opened(directory: Directory) -> object:
    return directory.open_reading(LOG)


def read(directory: Directory) -> object:
    return directory.read(LOG)


DENIED = "access is denied; see which credentials pyarrow finds"
SILENT = "the object store does not answer; see the network"
NOWHERE = "s3://bucket/store?scheme=http&endpoint_override=127.0.0.1:9&region=us-east-1"
BUSY = "the object store is busy and did not answer several tries"


@pytest.mark.parametrize(
    ("use", "failure", "said"),
    [
        (listed, Failure(is_list, "403 Forbidden", "AccessDenied"), DENIED),
        (listed, Failure(is_list, "403 Forbidden", "InvalidAccessKeyId"), DENIED),
        (listed, Failure(is_list, "403 Forbidden", "SignatureDoesNotMatch"), DENIED),
        (listed, Failure(is_list, "403 Forbidden", "ExpiredToken"), DENIED),
        (opened, Failure(is_head, "403 Forbidden", "AccessDenied"), DENIED),
        (read, Failure(is_get, "403 Forbidden", "AccessDenied"), DENIED),
    ],
)
def test_what_fails_is_an_error_in_words_and_nothing_that_is_not_there(
    use: Callable[[Directory], object], failure: Failure, said: str, s3: S3Server, uri: str
) -> None:
    partition = Files().directory(uri).at("orders-0")
    with s3.failing(failure), pytest.raises(ObjectStoreError) as raised:
        use(partition)
    assert raised.value.reason.startswith(said)
    assert str(raised.value.path).startswith(f"{uri}/orders-0")
    assert partition.read(LOG) == DATA  # it remembers no failure


def test_what_goes_on_failing_is_an_error_after_some_seconds(s3: S3Server, made: Path) -> None:
    """All at the same time, as pyarrow tries each for six seconds."""
    uses: list[tuple[Callable[[Directory], object], Failure, str]] = [
        (listed, Failure(is_list), BUSY),
        (opened, Failure(is_head), BUSY),
        (read, Failure(is_get), BUSY),
        (read, Failure(is_get, is_cut=True), SILENT),
    ]
    with ThreadPoolExecutor() as pool, ExitStack() as failing:
        tried = [(pool.submit(listed, Files().directory(NOWHERE)), SILENT)]
        for use, failure, said in uses:
            uri = s3.put(made)
            meets, key = failure.meets, s3.key(uri, "orders-0/")
            failure.meets = lambda request, meets=meets, key=key: meets(request) and request.key.startswith(key)
            failing.enter_context(s3.failing(failure))
            tried.append((pool.submit(use, Files().directory(uri).at("orders-0")), said))
        for each, said in tried:
            with pytest.raises(ObjectStoreError) as raised:
                each.result()
            assert raised.value.reason.startswith(said)


@pytest.mark.parametrize("failure", [Failure(lambda _: True, times=2), Failure(is_get, is_cut=True, times=2)])
def test_what_fails_for_a_moment_is_tried_again(failure: Failure, s3: S3Server, uri: str) -> None:
    with s3.failing(failure):
        partition = Files().directory(uri).at("orders-0")
        assert len(partition.names()) == 2
        assert partition.read(LOG) == DATA
        assert partition.above is not None
        assert partition.above.read("meta.properties") == b"version=1\n"
    assert failure.times == 0


def test_an_error_longer_than_a_small_file_is_the_same_error(s3: S3Server, uri: str) -> None:
    """Of a range that is shorter than the error's text, pyarrow says that the response stream could not be flushed."""
    with s3.failing(Failure(lambda request: is_get(request) and request.key.endswith("properties"), times=2)):
        assert Files().directory(uri).read("meta.properties") == b"version=1\n"


@pytest.mark.parametrize("size_bytes", [None, len(DATA) // 2, len(DATA), 2 * len(DATA)])
def test_an_object_that_is_replaced_while_it_is_read_is_never_mixed_or_made_up(
    size_bytes: int | None, s3: S3Server, uri: str
) -> None:
    key = s3.key(uri, f"orders-0/{LOG}")

    def replace() -> None:
        if size_bytes is None:
            s3.client.delete_object(Bucket=BUCKET, Key=key)
        else:
            s3.client.put_object(Bucket=BUCKET, Key=key, Body=b"!" * size_bytes)

    partition = Files().directory(uri).at("orders-0")
    with partition.open_reading(LOG) as file:
        assert file.read_at(0, 10) == DATA[:10]
        with s3.failing(Failure(is_get, status="", first=replace, times=1)), pytest.raises(FileNotFoundError) as raised:
            file.read_at(AHEAD_BYTES_MIN, len(DATA) - AHEAD_BYTES_MIN)
    assert raised.value.errno == errno.ENOENT
    assert raised.value.filename == f"{uri}/orders-0/{LOG}"
    if size_bytes is None:
        assert partition.status(LOG) is None
    else:
        assert partition.read(LOG) == b"!" * size_bytes


def test_what_is_listed_and_what_is_opened_are_of_one_time(s3: S3Server, uri: str) -> None:
    partition = Files().directory(uri).at("orders-0")
    assert partition.read(LOG) == DATA
    s3.client.put_object(Bucket=BUCKET, Key=s3.key(uri, f"orders-0/{LOG}"), Body=DATA + b"more")
    partition.look_again()
    status = partition.status(LOG)
    assert status is not None
    assert partition.read(LOG) == DATA + b"more"
    assert status.size_bytes == len(DATA) + 4


def test_a_small_file_that_is_replaced_while_it_is_read_is_read_again(s3: S3Server, uri: str) -> None:
    key = s3.key(uri, "meta.properties")
    replaced = Failure(
        is_get, "", first=lambda: s3.client.put_object(Bucket=BUCKET, Key=key, Body=b"version=0\n"), times=1
    )
    with s3.failing(replaced):
        assert Files().directory(uri).read_small("meta.properties", CorruptMetadataError, 10) == b"version=0\n"


def test_a_bucket_that_is_not_there(s3: S3Server) -> None:
    with pytest.raises(ObjectStoreError, match=r"there is no such bucket; see its name and its region .*nobody"):
        Files().directory(s3.uri("store", "nobody")).names()


def test_hdfs_without_hadoop() -> None:
    with pytest.raises(ObjectStoreError, match="hdfs:// needs libhdfs"):
        Files().directory("hdfs://namenode:8020/backup").names()


def test_an_option_that_there_is_not() -> None:
    with pytest.raises(ObjectStoreError, match=r"pyarrow does not understand the URI .*'regoin'"):
        Files().directory("s3://bucket/backup?regoin=eu-west-1").names()


def test_nothing_is_written(uri: str) -> None:
    store = Files().directory(uri)
    for change in (
        store.make,
        store.sync,
        store.check_can_give,
        store.free_bytes,
        lambda: store.lock(".lock"),
        lambda: store.open_writing("new", create=True),
        lambda: store.rename("empty", "full"),
        lambda: store.remove("empty"),
        lambda: store.remove_directory("orders-0"),
        lambda: store.replace("empty", b"full"),
    ):
        with pytest.raises(ReadOnlyStoreError, match="an object store is only read; copy it to a directory"):
            change()
    assert not store.is_locked(".lock")
    assert store.access_list("empty") is None
    with pytest.raises(OSError, match="Invalid argument"):
        store.link_target("empty")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s3://key:secret@bucket/store", "a URI with credentials shows them"),
        ("s3://key@bucket/store", "a URI with credentials shows them"),
        ("abfs://container:secret@account.dfs.core.windows.net/store", "a URI with credentials shows them"),
        ("abfs://container@account.dfs.core.windows.net/store?client_secret=x", "a URI with credentials shows them"),
        ("s3://bucket/store?endpoint_override=http://localhost:9000", "write endpoint_override=HOST:PORT&scheme=http"),
        ("s3a://bucket/store", "s3a:// is Hadoop's name of s3://"),
        ("hdfs:///store", "the URI has no bucket, container or host"),
        ("file://host/store", "a file: URI names a file of this machine"),
        ("ftp://host/store", "nothing reads ftp:// here"),
    ],
)
def test_uris_that_cannot_be(text: str, said: str) -> None:
    with pytest.raises(NotAStoreError) as raised:
        store_path(text)
    assert said in str(raised.value)
    assert "secret@" not in str(raised.value)


def test_paths_and_file_uris_are_the_operating_systems(tmp_path: Path) -> None:
    for text in (f"file://{tmp_path}", f"file:{tmp_path}", str(tmp_path)):
        assert store_path(text) == tmp_path
    for text in ("store", "./s3:/bucket", "s3/bucket", "bucket s3://", str(tmp_path)):
        assert not is_in_object_store(text)
    for text in ("gs://anonymous@bucket/a", "abfs://container@account.dfs.core.windows.net/a", "hdfs://host:8020/a"):
        assert is_in_object_store(store_path(text))
