"""Compiling what a usual run needs before it asks: in processes beside this one, which waits for them or helps.

Kernels are compiled once on a machine. A process compiles one after the other, and the first run would do so only as it
comes to each; two processes halve the time, and while a model is traced nobody waits.
"""

from __future__ import annotations

import atexit
import subprocess
import sys

from partita.engines.processes.child import environment, main_of
from partita.engines.search import compiling
from partita.ground.collecting import collect_rarely
from partita.ground.processors import usable_cores
from partita.problems import find_kind, kinds
from partita.problems.kind import Ahead, AnyKind

#: Most processes that compile beside this one: what is left is one large kernel, and the others together.
MOST = 2


def parts_of(kind: AnyKind) -> list[Ahead]:
    """What a usual run of a problem compiles; plans of stages may be placed."""
    placing = [each.ahead for each in kinds() if each.from_result is not None] if kind.stages is not None else []
    return [part for parts in (kind.ahead, *placing) for part in parts]


def compile_ahead(kind: AnyKind) -> None:
    """Begin to compile what is not on disk yet, if a person waits; what is needed meanwhile this process compiles."""
    if not compiling.beside or compiling.expected or not kind.ahead:
        return
    from partita.engines.kernels.compiled import is_compiled

    if all(is_compiled(kernel) for part in kind.ahead for kernel in part.kernels):
        return
    parts = parts_of(kind)
    missing = [number for number, part in enumerate(parts) if not all(map(is_compiled, part.kernels))]
    kernels = [kernel for number in missing for kernel in parts[number].kernels if not is_compiled(kernel)]
    compiling.expect([lambda kernel=kernel: is_compiled(kernel) for kernel in kernels])  # type: ignore[misc]
    cores = usable_cores()
    for first in range(min(MOST, cores) if cores > 1 else 0):
        # The first part takes about as long as all others together.
        mine = missing[:1] if first == 0 else missing[1:]
        if mine:
            _start(kind, mine)


def _start(kind: AnyKind, parts: list[int]) -> None:
    command = [*main_of("partita.conductor.ahead"), kind.name, *map(str, parts)]
    nowhere = subprocess.DEVNULL
    try:
        # Ctrl-C is not for it; it ends with this process.
        process = subprocess.Popen(
            command, env=environment(), start_new_session=True, stdin=nowhere, stdout=nowhere, stderr=nowhere
        )
    except OSError:
        # Then this process compiles everything.
        return
    atexit.register(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def main() -> None:
    """Run the parts of a problem whose name and numbers are the arguments."""
    collect_rarely()
    parts = parts_of(find_kind(sys.argv[1]))
    for number in sys.argv[2:]:
        parts[int(number)].run()
