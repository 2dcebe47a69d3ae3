"""A broker whose metadata log has a log directory of its own: killed, recovered here, and started again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from kafkafs.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from real_brokers import RealKafka

VERSION = "4"
MARKER = ".kafka_cleanshutdown"


def settings(root: Path) -> dict[str, str]:
    return {"log.dirs": f"{root / 'd1'},{root / 'd2'}", "metadata.log.dir": str(root / "metadata")}


def invoke(command: str, root: Path, *options: str) -> tuple[int, str]:
    given = ",".join(str(root / name) for name in ("d1", "d2", "metadata"))
    result = CliRunner().invoke(main, [command, given, *options])
    return result.exit_code, result.output + result.stderr


def markers(root: Path) -> set[str]:
    return {path.parent.name for path in root.glob(f"*/{MARKER}")}


def test_it_is_recovered_and_closed_as_by_a_broker(real_kafka: RealKafka, tmp_path: Path) -> None:
    root = tmp_path / "broker"
    with real_kafka.broker(root, settings(root), version=VERSION) as broker:
        at = ("--bootstrap-server", broker.bootstrap)
        real_kafka.tool("TopicCommand", *at, "--create", "--topic", "t", "--partitions", "4", version=VERSION)
        lines = "".join(f"{number}\n" for number in range(100))
        real_kafka.tool("ConsoleProducer", *at, "--topic", "t", stdin=lines, version=VERSION)
        broker.kill()
    assert markers(root) == set()
    exit_code, said = invoke("verify", root)
    assert exit_code == 0, said
    exit_code, said = invoke("recover", root, "--apply")
    assert exit_code == 0, said
    assert markers(root) == {"d1", "d2"}
    exit_code, said = invoke("verify", root)
    assert exit_code == 0, said
    with real_kafka.broker(root, settings(root), version=VERSION) as broker:
        given = ("--bootstrap-server", broker.bootstrap, "--topic", "t", "--from-beginning", "--max-messages", "100")
        read = real_kafka.tool("ConsoleConsumer", *given, version=VERSION).split()
        assert sorted(map(int, read)) == list(range(100))
        broker.stop()
    assert markers(root) == {"d1", "d2"}
    assert invoke("verify", root)[0] == 0
