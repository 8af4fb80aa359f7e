"""Engines that serve models, with the table of ``engines.toml``: what a step costs them beside its arithmetic."""

from __future__ import annotations

import msgspec

from partita.ground.checks import check_fields, check_fraction
from partita.ground.errors import InputError
from partita.nouns.catalogue.files import shipped_tables


class EngineSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A serving engine."""

    name: str
    summary: str
    #: Most tokens in a step that runs as a recorded graph, and host time to issue a kernel in others.
    recorded_tokens: int
    launch_s: float
    launch_on: dict[str, float] = {}  #: Likewise on machines with other hosts, by device.
    #: Time between two dependent kernels of a recorded graph: the end of one and the start of the next.
    kernel_s: float
    #: Host time of a step, of every request in it, and of every prompt in it. Where the engine overlaps it with the
    #: device's work it is the least that a step takes; otherwise it is added.
    host_s: float
    host_request_s: float
    host_prompt_s: float
    overlaps: bool
    library_sums: bool = False  #: Whether devices add up by a library of collectives, not by kernels of the engine.
    #: Whether products reach what they do in long runs (``compute_efficiency``), with libraries of the time of these,
    #: rather than a share of the best rate.
    sustained: bool = False
    #: Whether steps that do nothing else than prompts go first, and decodes wait (SGLang), or prompts share a step with
    #: decodes.
    prompts_first: bool = False
    #: Whether a prompt may be cut to fill a step.
    chunks: bool = True
    #: Whether attention-data groups that step together can be told to have prompts in every n-th step only.
    spaces_prompts: bool = False
    #: The most tokens of an attention-data group with which, in a step with prompts, groups that step together are all
    #: filled up to the one that has most, as recorded graphs need it; None where they always are.
    padded_tokens: int | None = None
    arrival_s: float = 0.0  #: From a request's arrival to the queue, and back to the client.
    #: Defaults: most tokens in a step, most requests, share of the memory it takes, tokens of a page of the cache.
    step_tokens: int = 8192
    requests: int = 256
    memory_share: float = 0.9
    block: int = 16
    #: Share of its output that a request must find room for when it is admitted.
    reserved_output: float = 0.0
    #: Whether a request that was put back finds again what nobody has overwritten since (prefix caching): pages that
    #: were given out since then are lost, the last of its own first, and only these are computed again.
    keeps_preempted: bool = False
    #: By how much outputs that are all of one length differ in a closed loop (uniform, to both sides). Requests that
    #: begin together would stay together for ever; where prompts share steps with decodes, small differences of answers
    #: and clients drive them apart, and where prompts go first, they begin decoding together again.
    drift: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        owner = f"engine {self.name!r}"
        names = ("launch_s", "kernel_s", "host_s", "host_request_s", "host_prompt_s", "arrival_s")
        check_fields(owner, self, *names)
        check_fraction(owner, "memory_share", self.memory_share)


ENGINES: tuple[EngineSpec, ...] = tuple(msgspec.convert(table, EngineSpec) for table in shipped_tables("engines"))


def find_engine(name: str) -> EngineSpec:
    """The engine of a name.

    Raises ``InputError`` if there is none.
    """
    for engine in ENGINES:
        if engine.name == name:
            return engine
    raise InputError(f"there is no engine {name!r}; known are {', '.join(engine.name for engine in ENGINES)}")
