"""A real S3 server on this machine, moto's, which counts requests and fails as it is told.

It is reached as pyarrow reaches any: by the URI, and by credentials in the environment.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

BUCKET: Final = "backups"
CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "reader",
    "AWS_SECRET_ACCESS_KEY": "of-this-machine",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@dataclass(frozen=True)
class Request:
    """A request: what it asks for, and of which object or prefix. `size_bytes` are those of the answer."""

    kind: str  # "list", "head" or "get"
    key: str
    size_bytes: int = 0


@dataclass
class Failure:
    """How requests fail: those that `meets` says, as often as `times`; `spares` go well before."""

    meets: Callable[[Request], bool]
    status: str = "503 Slow Down"
    code: str = "SlowDown"
    times: int = 10**9
    spares: int = 0
    is_cut: bool = False  # the answer ends in the middle of the object instead
    first: Callable[[], object] = lambda: None  # what happens right before; without a status the answer is sound then


@dataclass
class S3Server:
    """A server that runs. Requests of kafkafs are in `requests`."""

    endpoint: str
    client: Any
    requests: list[Request] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def uri(self, prefix: str, bucket: str = BUCKET) -> str:
        """Return the URI of a prefix."""
        return f"s3://{bucket}/{prefix}?scheme=http&endpoint_override={self.endpoint}&region=us-east-1"

    def put(self, directory: Path, prefix: str | None = None) -> str:
        """Copy a directory as a backup tool does, by default to a prefix of its own, and return its URI."""
        name = f"{next(_prefixes)}/{directory.name}" if prefix is None else prefix
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                self.client.upload_file(str(path), BUCKET, f"{name}/{path.relative_to(directory)}")
        return self.uri(name)

    def key(self, uri: str, name: str) -> str:
        """Return the key of an object below a prefix."""
        return f"{uri.partition('?')[0].removeprefix(f's3://{BUCKET}/')}/{name}"

    @contextmanager
    def failing(self, failure: Failure) -> Iterator[None]:
        """Fail in a block."""
        self.failures.append(failure)
        try:
            yield
        finally:
            self.failures.remove(failure)

    @contextmanager
    def counted(self) -> Iterator[list[Request]]:
        """Provide the requests of a block, which grow while it runs."""
        del self.requests[:]
        yield self.requests


_prefixes = count()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """Run a server for all tests, with credentials for it in the environment."""
    pytest.importorskip("moto", reason="not run: moto is not installed")
    known = {name: os.environ.get(name) for name in CREDENTIALS}
    os.environ.update(CREDENTIALS)
    with s3_server() as server:
        yield server
    for name, value in known.items():
        os.environ.pop(name)
        if value is not None:
            os.environ[name] = value


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run a server with an empty bucket."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    behind = _Counting(DomainDispatcherApplication(create_backend_app))
    http = make_server("127.0.0.1", 0, behind, threaded=True)
    thread = Thread(target=http.serve_forever, daemon=True)
    thread.start()
    endpoint = f"127.0.0.1:{http.server_port}"
    try:
        client = _client(endpoint)
        client.create_bucket(Bucket=BUCKET)
        behind.server = server = S3Server(endpoint, client)
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def _client(endpoint: str) -> Any:
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=f"http://{endpoint}",
        region_name="us-east-1",
        aws_access_key_id="owner",
        aws_secret_access_key="of-this-machine",
    )


class _Counting:
    """The server's application, with what is counted and what fails before it."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self.server: S3Server | None = None
        self._application = application
        self._lock = Lock()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        request = _asked(environ)
        if self.server is None or request is None or "reader/" not in environ.get("HTTP_AUTHORIZATION", "reader/"):
            return self._application(environ, start)
        failure = self._failure(request)
        said: list[Any] = []
        if failure is not None and failure.status and not failure.is_cut:
            body = b"" if request.kind == "head" else _error(failure.code)
            said = [failure.status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]]
        else:
            body = b"".join(self._application(environ, lambda *given: said.extend(given[:2])))
        size_bytes = 0 if request.kind == "head" else len(body)
        self.server.requests.append(Request(request.kind, request.key, size_bytes))
        start(*said)
        return [body[: len(body) // 2] if failure is not None and failure.is_cut else body]

    def _failure(self, request: Request) -> Failure | None:
        assert self.server is not None
        with self._lock:
            for failure in self.server.failures:
                if not failure.meets(request):
                    continue
                if failure.spares > 0:
                    failure.spares -= 1
                elif failure.times > 0:
                    failure.times -= 1
                    failure.first()
                    return failure
        return None


def _asked(environ: dict[str, Any]) -> Request | None:
    _, _, *key = environ["PATH_INFO"].split("/", 2)
    query = environ.get("QUERY_STRING", "")
    match environ["REQUEST_METHOD"]:
        case "HEAD":
            return Request("head", "".join(key))
        case "GET" if "list-type=2" in query:
            return Request("list", parse_qs(query).get("prefix", [""])[0])
        case "GET":
            return Request("get", "".join(key))
        case _:
            return None


def _error(code: str) -> bytes:
    text = f"<Error><Code>{code}</Code><Message>as a test asks</Message><RequestId>1</RequestId></Error>"
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()
