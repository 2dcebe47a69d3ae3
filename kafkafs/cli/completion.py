"""Completion of words in bash, zsh and fish, imported only when a shell asks for it.

Commands and options are click's to complete. Here are the names of the store that a line names: topics, groups, and
paths of the grammar with their formats, as the tree lists them. Nothing is locked or changed. What takes longer than a
few seconds, as a hostile store might, ends without a word, and so does every error.
"""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

from kafkafs.plain_text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from kafkafs.tree.node import Directory

_PATIENCE_S: Final = 5.0
_LISTED_RECORDS_MAX: Final = 20
_PART: Final = "part"  # of a path, after which no blank comes
_PLAIN_IN_SHELLS: Final = re.compile(r"([^A-Za-z0-9_@%+=:,./^-])")
_RECORDS: Final = ("all", "last-10", "last-10..")
_TIMES: Final = ("now", "today", "yesterday", "-15m..", "-1h..", "today..")

_BASH: Final = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            part) compopt -o nospace; COMPREPLY+=("$value") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(%(complete_var)s=bash_complete COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        COMP_LINE="${COMP_LINE:0:COMP_POINT}" "$1" 2>/dev/null </dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_ZSH: Final = """\
#compdef %(prog_name)s
%(complete_func)s() {
    local type value line
    for line in "${(@f)$(%(complete_var)s=zsh_complete COMP_LINE="${(j: :)words[1,CURRENT]}" \\
        "${words[1]}" 2>/dev/null </dev/null)}"; do
        type=${line%%%%,*} value=${line#*,}
        case $type in
            dir) _path_files -/ ;;
            file) _path_files ;;
            part) compadd -Q -U -S '' -V unsorted -- "$value" ;;
            plain) compadd -Q -U -V unsorted -- "$value" ;;
        esac
    done
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
_FISH: Final = """\
function %(complete_func)s
    for line in (%(complete_var)s=fish_complete COMP_LINE=(commandline -cp) %(prog_name)s 2>/dev/null </dev/null)
        set -l parts (string split -m 1 , -- $line)
        switch $parts[1]
            case dir
                __fish_complete_directories (commandline -ct)
            case file
                __fish_complete_path (commandline -ct)
            case part plain
                echo $parts[2]
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


class _StoreNames(click.types.StringParamType):
    """The type of an argument that names something in a store; for a shell alone, so it checks nothing."""

    name = "text"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Return the names that begin so."""
        asked = param.make_metavar(ctx).strip("[].")
        if asked in {"STORE", "OTHER", "DEST", "DIR"}:
            return [CompletionItem(incomplete, type="dir")]
        if asked == "FILE":
            return [CompletionItem(incomplete, type="file")]
        store = ctx.params.get("store")
        if not store:
            return []
        return [
            CompletionItem(name, type=_PART if name.endswith("/") else "plain")
            for name in _names(store, asked, incomplete)
            if name.startswith(incomplete)
        ]


def _names(store: tuple[Path, ...], asked: str, incomplete: str) -> Iterator[str]:
    """Yield names in a store: of its topics, its groups, or paths; some may not begin as they should."""
    from kafkafs.cli.tree import node_at, opened_tree, tree_options
    from kafkafs.tree.node import Directory
    from storage.store import Mode

    options = tree_options("read_uncommitted", list_limit=_LISTED_RECORDS_MAX)
    with opened_tree(store, Mode.READ_ONLY, options) as tree:
        if asked.startswith("TOPIC"):
            topics = tree.context.store.topics.inventory.topics
            topic, slash, _ = incomplete.partition("/")
            takes_partition = slash and asked != "TOPIC"
            yield from (f"{topic}/{number}" for number in topics.get(topic, ())) if takes_partition else topics
            return
        before, slash, last = ("/.kafkafs/groups", "", "") if asked == "GROUP" else incomplete.rpartition("/")
        directory = node_at(tree, before or "/")
        if isinstance(directory, Directory):
            for name in _names_in(directory, last):
                yield name if asked == "GROUP" else f"{before}{slash}{name}"


def _names_in(directory: Directory, last: str) -> Iterator[str]:
    """Yield the listed names of a directory, those that its grammar has besides, and what is begun in each format."""
    from kafkafs.locator.errors import BadNameError
    from kafkafs.locator.formats import Format
    from kafkafs.locator.offsets import parse_offset_name
    from kafkafs.locator.times import parse_time_name
    from kafkafs.locator.views import CONTROL_VIEWS, PARTITION_VIEWS, Kind, View

    view = directory.path.view
    directories = {name for name, each in {**PARTITION_VIEWS, **CONTROL_VIEWS}.items() if each.kind is Kind.DIRECTORY}
    for name in directory.names():
        is_directory = (
            view in {View.ROOT, View.UNATTACHED}
            or (view is View.TOPIC and name.isdecimal())
            or (view in {View.PARTITION, View.UNATTACHED_LOG, View.CONTROL} and name in directories)
        )
        yield f"{name}/" if is_directory else name
    if view in {View.OFFSET, View.BY_TIME}:
        yield from _RECORDS if view is View.OFFSET else _TIMES
        parse = parse_offset_name if view is View.OFFSET else parse_time_name
        for records in (last, last.rpartition(".")[0]):
            try:
                parse(records)
            except BadNameError:
                continue
            yield from (f"{records}{form}" for form in Format if form)


def _complete_by_metavars(command: click.Command) -> None:
    """Let the arguments of a command be completed by what their places in its help are called."""
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and parameter.type is click.STRING:
            parameter.type = _StoreNames()


def end_in_time() -> None:
    """Let this process end by a signal, wherever it is, if it has not answered in a few seconds."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S)


class _Completion(ShellComplete):
    """What the shells share. `COMP_LINE` is the line up to the cursor."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one to complete, and that one."""
        line = os.environ["COMP_LINE"]
        words = [os.path.expandvars(os.path.expanduser(word)) for word in split_arg_string(line)]  # noqa: PTH111
        is_begun = bool(line) and not line[-1].isspace()
        incomplete = words.pop() if is_begun and len(words) > 1 else ""
        return words[1:], incomplete

    def complete(self) -> str:
        """Return a line for each word that fits; none after an error."""
        try:
            args, incomplete = self.get_completion_args()
            command = self.cli
            for word in args:
                if isinstance(command, click.Group):
                    command = command.get_command(click.Context(command), word) or command
            _complete_by_metavars(command)
            return "\n".join(map(self.format_completion, self._fitting(self.get_completions(args, incomplete))))
        except Exception:  # noqa: BLE001 -- a shell has no place to show it
            return ""

    def _fitting(self, items: Iterable[CompletionItem[str]]) -> Iterable[CompletionItem[str]]:
        return items

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the kind of the word, a comma, and the word as it is to be typed."""
        return f"{item.type},{quoted(item.value)}"


class _Bash(_Completion):
    """Bash replaces only what follows the last of its word breaks, which a time has, or what is in an open quote."""

    name = "bash"
    source_template = _BASH

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the word without what bash keeps."""
        words = re.split(r"\s+", os.environ["COMP_LINE"])
        typed = words[-1]
        if typed[:1] in {"'", '"'}:
            return f"{item.type},{one_line(item.value)}"
        if typed.startswith("-"):
            typed = typed.partition("=")[2]
        breaks = set(":=") & set(os.environ.get("COMP_WORDBREAKS", ":="))
        kept = max((typed.rfind(each) + 1 for each in breaks), default=0)
        return f"{item.type},{quoted(item.value[kept:])}"


class _Zsh(_Completion):
    """Zsh takes words as they are to be typed."""

    name = "zsh"
    source_template = _ZSH


class _Fish(_Completion):
    """Fish quotes words itself, and has none with a control character."""

    name = "fish"
    source_template = _FISH

    def _fitting(self, items: Iterable[CompletionItem[str]]) -> Iterable[CompletionItem[str]]:
        return (item for item in items if item.value.isprintable())

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Return the kind of the word, a comma, and the word."""
        return f"{item.type},{item.value}"


def quoted(text: str) -> str:
    """Return a word as it is typed in bash and zsh."""
    if text.isprintable():
        return _PLAIN_IN_SHELLS.sub(r"\\\1", text)
    data = text.encode("utf-8", "surrogateescape")
    return "$'{}'".format("".join(f"\\x{byte:02x}" for byte in data))


for shell in (_Bash, _Zsh, _Fish):
    add_completion_class(shell)
