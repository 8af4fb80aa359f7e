"""What the commands share: consoles, progress, writing and exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
import msgspec

from partita.api.search import Search
from partita.cli import EXIT_INTERRUPTED, EXIT_NOTHING
from partita.cli.flags import Whole, json_option, option, path_option, seed_type, time_limit_option, together
from partita.engines.search.result import Event, Progress, Result, Status, StopReason, relative_gap
from partita.ground.errors import InputError
from partita.ground.units import format_time

if TYPE_CHECKING:
    from partita.api.answer import AnyAnswer

#: As the path of a file to write: standard output.
STDOUT = "-"

#: Columns of tables that go into a pipe or a file.
WIDE = 140

#: Options of every command that searches; see ``take_search``.
run_options = together(
    option("search", "--solver", metavar="NAME", help="See `partita solvers`."),
    time_limit_option,
    option("search", "--seed", type=seed_type, default=0, help="Same seed, same answer."),
    option("search", "--threads", type=Whole(min=1), default=2, help="Most threads to use."),
)


def take_search(parameters: dict[str, Any]) -> Search:
    """Take what ``run_options`` gave out of a command's parameters."""
    return Search(**{name: parameters.pop(name) for name in ("solver", "time_limit_s", "seed", "threads")})


#: Where the result goes; see ``Output``.
output_options = together(
    path_option("--output", metavar="R.json", help="Write the result file; - is standard output."), json_option
)


@dataclass(frozen=True)
class Output:
    """Where a command's answer goes: a document to a file, stdout or both, tables and sentences to people.

    ``path`` is that of the document: ``-`` is stdout, None nowhere. With ``as_json`` stdout gets it instead of tables.
    """

    path: str | None
    as_json: bool

    @classmethod
    def take(cls, parameters: dict[str, Any], *others: str | None) -> Output:
        """What ``output_options`` gave, out of a command's parameters, if it and the ``others`` can be written."""
        found = cls(parameters.pop("output"), parameters.pop("as_json"))
        check_writable(found.path, *others)
        return found

    def document(self, document: dict[str, Any]) -> None:
        """Write the document where it goes, with how it was made."""
        from partita.documents.made import made

        self.value({**document, "made": made(*_call())})

    def value(self, document: dict[str, Any]) -> None:
        """Write what other commands read, and what is the same however it was made."""
        if self.path not in (None, STDOUT):
            from partita.documents.document import write_json

            write_json(str(self.path), document)
        if self.as_json or self.path == STDOUT:
            emit_json(document)

    def answer(self, answer: AnyAnswer) -> None:
        """Write the document of an answer where it goes; its file also holds the problem."""
        from partita.documents.made import made

        how = {"made": made(*_call())}
        if self.path not in (None, STDOUT):
            from partita.documents.document import write_json

            write_json(str(self.path), answer.document() | how)
        if self.as_json or self.path == STDOUT:
            emit_json(answer.document(stated=False) | how)

    def show(self, parts: Iterable[Any], *, always: bool = False) -> None:
        """Tables and sentences: on stdout, or on stderr beside a document; with ``--json`` only if ``always``."""
        if always or not self.as_json:
            show(parts, stream=sys.stderr if self.as_json or self.path == STDOUT else sys.stdout)


def _call() -> tuple[list[str], list[str]]:
    """The command that runs, and the files that it was given to read."""
    context = click.get_current_context()
    given = [
        context.params.get(str(parameter.name))
        for parameter in context.command.params
        if isinstance(parameter, click.Argument) or getattr(parameter, "group", "output") != "output"
    ]
    return list(context.find_root().obj or ()), [value for value in given if isinstance(value, str)]


def check_writable(*paths: str | None, folders: bool = False) -> None:
    """Fail before the search, not after it, where a result cannot be written; ``folders`` may be named, too."""
    for path in paths:
        if path is None or path == STDOUT:
            continue
        place = Path(path).resolve()
        if not place.parent.is_dir():
            raise InputError(f"{path}: the folder {place.parent} does not exist; create it first")
        if place.is_dir() and not folders:
            raise InputError(f"{path} is a folder; name a file to write")
        if place.is_file() or not place.exists():
            # What is in the way of a new file there shows only when one is made.
            try:
                with tempfile.TemporaryFile(dir=place.parent):
                    pass
            except OSError as error:
                raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


def emit_json(document: dict[str, Any]) -> None:
    """Print one JSON object on stdout; where that is not in UTF-8, with escapes instead of what it may lack."""
    text = msgspec.json.encode(document).decode()
    if not (sys.stdout.encoding or "").lower().startswith("utf"):
        text = json.dumps(json.loads(text), separators=(",", ":"))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def emit_bytes(data: bytes) -> None:
    """Write a file on stdout, as it is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def show(parts: Iterable[Any], *, stream: TextIO | None = None) -> None:
    """Print tables and sentences on stdout, or another stream."""
    from rich.console import Console

    class Screen(Console):
        """A console that says when its reader has gone, rather than end the process."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    target = sys.stdout if stream is None else stream
    # Piped tables still need room; a terminal's own width is kept.
    screen = Screen(file=target, width=None if target.isatty() else WIDE)
    for part in parts:
        if part != "":
            screen.print(part, soft_wrap=isinstance(part, str), highlight=False, markup=False)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, cell under cell."""
    widths = [*(max(map(len, column)) for column in zip(*rows, strict=True)), 0]
    return ["  ".join([*map(str.ljust, row[:-1], widths), row[-1]]) for row in rows]


def warn(text: str) -> None:
    """Print a note on stderr."""
    print(f"partita: {text}", file=sys.stderr)


@contextlib.contextmanager
def quiet_stdout() -> Iterator[None]:
    """Send what other code prints to stderr, native code included: stdout is for the answer."""
    sys.stdout.flush()
    with contextlib.redirect_stdout(sys.stderr):
        try:
            kept = os.dup(1)
            os.dup2(2, 1)
        except OSError:
            # There is no such stream to redirect.
            yield
            return
        try:
            yield
        finally:
            _flush_native()
            os.dup2(kept, 1)
            os.close(kept)


def _flush_native() -> None:
    """Write what C code has printed into its own buffer, which would else go to stdout at the end of the process."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def end_stdout() -> None:
    """Nothing more belongs to the answer: what other code prints on its way out goes to stderr."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        _flush_native()
        os.dup2(2, 1)


@contextlib.contextmanager
def progress_line(label: str) -> Iterator[Progress]:
    """A live line on a terminal's stderr with the best plan and bound; silent elsewhere."""
    if not sys.stderr.isatty():
        yield _notes_only
        return
    from rich.console import Console
    from rich.live import Live

    from partita.cli.progress import LiveLine

    screen, status = Console(stderr=True), LiveLine(f"{label} …")
    with Live(status, console=screen, refresh_per_second=8, transient=True):

        def update(event: Event) -> None:
            if event.note:
                screen.print(f"[dim]{event.note}[/dim]")
            best = "none yet" if event.objective is None else format_time(event.objective, event.unit)
            bound = "none yet" if event.bound is None else format_time(event.bound, event.unit)
            gap = relative_gap(event.objective, event.bound)
            text = "" if gap is None else f", gap {gap:.3%}"
            status.update(f"{label}: best {best}, bound {bound}{text} ({event.time_s:.1f} s)")

        yield update


def _notes_only(event: Event) -> None:
    if event.note:
        warn(event.note)


def exit_code(result: Result[Any, Any, Any]) -> int:
    """130 after an interruption, 1 for a proven infeasible problem, 5 for no plan without that proof, else 0."""
    if result.stop_reason is StopReason.INTERRUPTED:
        return EXIT_INTERRUPTED
    if result.status is Status.INFEASIBLE:
        return 1
    return EXIT_NOTHING if result.plan is None else 0
