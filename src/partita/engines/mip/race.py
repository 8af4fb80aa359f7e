"""Several backends of one program at once: no one is the fastest of all programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from partita.ground.errors import SolverCrashError

AnswerT = TypeVar("AnswerT")


def race(
    backends: Sequence[str],
    run: Callable[[str, Callable[[], bool]], AnswerT],
    done: Callable[[AnswerT], bool],
) -> list[AnswerT | SolverCrashError]:
    """What every backend comes to, the first one in this thread.

    ``run`` gets a backend, and what to poll: true asks it to return soon, for another one is ``done``. One that crashes
    leaves the others running, and its error is its answer; if all crash, the first error is raised. Whatever else
    one raises ends all, and leaves here.
    """
    ended = threading.Event()

    def go(backend: str) -> AnswerT | SolverCrashError:
        try:
            answer = run(backend, ended.is_set)
        except SolverCrashError as error:
            return error
        except BaseException:
            ended.set()
            raise
        if done(answer):
            ended.set()
        return answer

    first, *others = backends
    with ThreadPoolExecutor(max(1, len(others))) as pool:
        beside = [pool.submit(go, one) for one in others]
        found = [go(first), *(one.result() for one in beside)]
    crashes = [one for one in found if isinstance(one, SolverCrashError)]
    if len(crashes) == len(found):
        raise crashes[0]
    return found
