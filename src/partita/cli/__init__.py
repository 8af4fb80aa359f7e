"""The command line: one subcommand per verb. Heavy imports happen inside the commands, so that help is instant."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from pkgutil import resolve_name
from typing import Any

import click

from partita.cli.streams import ReaderGoneError, prepare_streams
from partita.engines.search import compiling
from partita.ground import registry
from partita.ground.collecting import collect_rarely
from partita.ground.errors import DisagreementError, PartitaError, RankError
from partita.ground.version import __version__

EXIT_USAGE = 2
EXIT_RANK = 3
EXIT_NOT_SHOWN = 4
EXIT_NOTHING = 5
EXIT_DEFECT = 70
EXIT_INTERRUPTED = 130

#: Where the command of each name is made, and the first sentence of its help, which the list of commands shows without
#: making them. Commands are made when they are asked for, with the problems there are then.
COMMANDS = {
    "plan": ("plan:plan", "Split MODEL over CLUSTER."),
    "solve": ("solve:solve", "Find the best plan for the problem in FILE, and prove how good it is."),
    "map": (
        "solve:map_command",
        "As `partita solve`, to place stages and replicas on physical devices: the slowest replica, with its links, "
        "as fast as possible.",
    ),
    "evaluate": (
        "judging:evaluate",
        "Evaluate PLAN, a result file or another file that plans are written in, on the problem in FILE.",
    ),
    "check": ("judging:check", "Verify plan and proof of a result file R.json without the solvers."),
    "bound": ("judging:bound", "Prove a lower bound on the best objective of the problem in FILE."),
    "compare": ("compare:compare", "Put every baseline beside the plan for a problem file or a model."),
    "sweep": ("sweep:sweep", "Plan FILE or MODEL at every combination of the values given."),
    "simulate": ("simulate:simulate", "Run the plan of a result file R.json through the simulator."),
    "report": ("report:report", "Show FILE as one HTML page that opens without a network (needs partita[report])."),
    "run": ("run:run", "Run the plan of a result file R.json on processes of this machine, and check it."),
    "training-run": ("training_run:training_run", "Say how long the plan in FILE trains on so many tokens."),
    "trace": ("trace:trace", "Trace MODEL into a graph, which --output writes."),
    "profile": ("profile:profile", "Time MODEL's operators on this machine, and messages between processes."),
    "export": ("export:export", "Write the plan of a result file R.json for a runtime."),
    "generate": ("generate:generate", "Make a random problem."),
    "convert": (
        "generate:convert",
        "Write FILE or MODEL as a problem in a simpler form: identical devices without CPUs, variants, memory limit.",
    ),
    "problems": ("listing:problems", "List the problems."),
    "solvers": ("listing:solvers", "List the solvers of every problem."),
    "bounds": ("listing:bounds", "List the bounds of every problem, cheapest first."),
    "baselines": ("listing:baselines", "List the baselines of every problem: what people do by hand."),
    "schedules": ("listing:schedules", "List the schedules of pipelines."),
    "exporters": ("listing:exporters", "List the runtimes that plans are exported to."),
    "devices": ("listing:devices", "List the device catalogue."),
    "links": ("listing:links", "List the link catalogue."),
    "topologies": ("topologies:topologies", "List the topologies, or show one."),
}


class _Commands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGoneError from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = formatter.width - 6 - max(map(len, COMMANDS))
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, click.Command(name, help=said).get_short_help_str(width))
                    for name, (_, said) in COMMANDS.items()
                ]
            )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        made: click.Command = resolve_name(f"partita.cli.{COMMANDS[cmd_name][0]}")()
        made.params.append(_debug_option())
        return made


#: Asks for the whole traceback of an error.
DEBUG = "--debug"


def _debug_option() -> click.Option:
    text = "With an error, where in the code it comes from: the whole traceback."
    return click.Option([DEBUG], is_flag=True, expose_value=False, help=text)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="partita")
@click.option(DEBUG, is_flag=True, expose_value=False, help="With an error, the whole traceback.")
def cli() -> None:
    """Split a neural network over devices, and say how far from the best possible the split is."""


def _fail(message: str, code: int) -> int:
    print(f"partita: {' '.join(message.split())}", file=sys.stderr)
    return code


def _of_stdout(error: OSError) -> bool:
    """Whether what went wrong is that stdout has no room, or cannot be written at all."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EBADF)


def _give_up_stdout() -> None:
    """What is still in its buffer cannot be written at the end of the process either."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line and exit.

    0 done, 1 infeasible, 2 bad input, 3 a rank failed, 4 nothing to verify a bound by, 5 nothing found and nothing
    proven, 130 interrupted.
    """
    if arguments is None:
        prepare_streams()
        collect_rarely()
    compiling.beside = arguments is None
    compiling.tell = registry.tell = lambda note: print(f"partita: {note}", file=sys.stderr)
    try:
        typed = ["partita", *(sys.argv[1:] if arguments is None else arguments)]
        code = cli.main(args=arguments, prog_name="partita", standalone_mode=False, obj=typed)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        code = EXIT_USAGE
    except click.ClickException as error:
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "partita"
        code = _fail(f"{error.format_message()} (see {command} --help)", EXIT_USAGE)
    except DisagreementError as error:
        traceback.print_exc()
        code = _fail(f"defect: {error}", EXIT_DEFECT)
    except PartitaError as error:
        if DEBUG in (sys.argv[1:] if arguments is None else arguments):
            traceback.print_exc()
        code = _fail(str(error), EXIT_RANK if isinstance(error, RankError) else EXIT_USAGE)
    except (KeyboardInterrupt, click.Abort):
        code = _fail("interrupted before there was an answer", EXIT_INTERRUPTED)
    except (ReaderGoneError, BrokenPipeError):
        # Who reads no further has what was wanted.
        _give_up_stdout()
        code = 0
    except OSError as error:
        if not _of_stdout(error):
            raise
        code = _fail(f"standard output cannot be written: {error.strerror}", EXIT_USAGE)
        _give_up_stdout()
    if arguments is None:
        from partita.cli.common import end_stdout

        end_stdout()
    sys.exit(code if isinstance(code, int) else 0)
