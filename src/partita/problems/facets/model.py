"""How a model on a cluster becomes a problem."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal

import msgspec

from partita.engines.search.monitor import Monitor
from partita.engines.search.result import Result, Rival
from partita.ground.shown import brief
from partita.nouns.graph import Workload
from partita.nouns.split import StagePart
from partita.problems.facets import Facet, P
from partita.problems.settings import setting

if TYPE_CHECKING:
    from partita.nouns.cluster import Cluster
    from partita.nouns.graph import Graph

#: Microbatches per device that are usual for small pipeline bubbles.
PER_DEVICE = 4


class AcceleratorChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be changed of a stated problem over accelerators; a problem adds its own fields."""

    devices: Annotated[
        int | None,
        setting("Number of accelerators.", metavar="N", least=0, group="problem", stated=True, unit="devices"),
    ] = None
    memory: Annotated[
        float | None,
        setting("Bytes per accelerator, or inf.", metavar="BYTES", in_bytes=True, least=0, group="problem"),
    ] = None


class DeviceChanges(AcceleratorChanges, frozen=True, kw_only=True):
    """The same where these work on microbatches."""

    microbatches: Annotated[
        int | None,
        setting("Microbatches of the batch.", metavar="N", least=1, group="problem", stated=True, unit="microbatches"),
    ] = None
    weight_sync_per_batch: Annotated[
        bool, setting("Replicas synchronise weights once per batch, not per microbatch.", group="problem")
    ] = False


class Pricing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every pricing of a model may be asked for; a problem adds its own fields."""

    optimizer: Annotated[
        str,
        setting(
            "Training: its state.",
            metavar="NAME",
            group="training",
            training=True,
            meaning="The optimizer whose state is held.",
            hint="partita.costs.optimizer:Optimizer",
        ),
    ] = "adam"
    optimizer_dtype: Annotated[
        str,
        setting(
            "Of its state.",
            metavar="NAME",
            group="training",
            training=True,
            meaning="The number format of the optimizer's state.",
        ),
    ] = "float32"
    costs: Annotated[
        Any,
        setting(
            "Measured times.",
            metavar="TABLE",
            group="model",
            hint="partita.costs.roofline:CostSource | str | None",
            meaning="Where operator times come from: a source of costs, or the path of a table or profile of measured "
            "ones; the roofline if None.",
        ),
    ] = None
    #: See ``partita.nouns.catalogue.runtimes``.
    runtime: Annotated[
        str | None,
        setting(
            "Plan what this runtime can run, exactly.",
            metavar="NAME",
            group="model",
            meaning="Plan what this runtime can run, exactly: a name that `partita exporters` lists.",
        ),
    ] = None
    master_weights: Annotated[
        bool | None,
        setting(
            "Whether a copy of the weights in optimizer_dtype is kept; if None, where the weights are narrower.",
            python_only=True,
        ),
    ] = None
    name: Annotated[
        str | None, setting("The problem's name; the model's and the cluster's if None.", python_only=True)
    ] = None


#: What pricings of training that keep frozen weights packed declare as ``weights``.
FrozenWeights = Annotated[
    Literal["nf4"] | None,
    setting(
        "Frozen weights of linear layers are kept so, and unpacked for each product: nf4, as QLoRA does.",
        metavar="FORMAT",
        group="training",
        training=True,
        meaning="What frozen weights of linear layers are kept in, unpacked for each product; their own number format "
        "if None.",
    ),
]


@dataclass(frozen=True)
class Priced(Generic[P]):
    """A problem made from a model on a cluster.

    ``settings``, an instance of ``FromModel.pricing``, say how; ``details`` are for the problem's own rooms alone;
    ``free`` is the same problem without the limits of a runtime, None if there are none.
    """

    problem: P
    graph: Graph
    cluster: Cluster
    settings: Any
    details: Any = None
    free: P | None = None

    __repr__ = brief


@dataclass(frozen=True)
class RefinedPlan:
    """What a problem makes of an answer beyond its objective.

    ``row`` is a plan to take instead, ``other`` one that a reader should know of; None for none. Only an answer that
    was chosen ``by_objective`` may be shaped by a limit that is nearly reached. No plan of a wider kind, which the
    problem does not allow, beats ``wider_bound``; None where that is not known. ``limits`` are sentences about what
    would change the answer.
    """

    row: Rival | None = None
    other: Rival | None = None
    by_objective: bool = True
    wider_bound: float | None = None
    limits: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelParts:
    """A plan in parts of the traced model, in pipeline order, and how they run.

    Operators of parts are in any order, and their modules are still to be found. ``recompute`` says by operator what
    its layer runs again, as in ``Layer`` of a split, and nothing where it is missing; ``gradient_dtype`` is the
    format of gradients, ``parameter`` for that of weights; the others are as in the settings of a pricing and in
    a ``Split``.
    """

    stages: Sequence[StagePart]
    recompute: Mapping[int, str] = field(default_factory=dict)
    schedule: str = "forward"
    microbatches: int = 1
    chunks: int = 1
    zero: int = 0
    zero_shards: int = 0
    sequential: bool = False
    sequence_parallel: bool = True
    overlap: bool = True
    optimizer: str = "adam"
    optimizer_dtype: str = "float32"
    master_weights: bool | None = None
    gradient_dtype: str = "parameter"


@dataclass(frozen=True)
class ModelPlan(Generic[P]):
    """A plan for a model on a cluster, with what is needed to judge it."""

    #: The problem that was solved, what it was made from, and its plan with evaluation and bound.
    priced: Priced[P]
    result: Result[P, Any, Any]
    baselines: tuple[Rival, ...] = ()  #: What simple plans reach on the same problem.
    #: Every candidate problem with its result, where there were several.
    tried: tuple[tuple[Priced[P], Result[P, Any, Any]], ...] = ()
    other: Rival | None = None  #: This, ``wider_bound`` and ``limits``: as of ``RefinedPlan``.
    #: Objective reachable without the limit that is nearly reached (``Kind.unlimited``); None where none is.
    without_limit: float | None = None
    #: What was found of the same problem without the limits of a runtime; None where nothing was looked for.
    free: Result[P, Any, Any] | None = None
    wider_bound: float | None = None
    limits: tuple[str, ...] = ()

    __repr__ = brief

    @property
    def problem(self) -> P:
        """The priced problem."""
        return self.result.problem

    @property
    def graph(self) -> Graph:
        """The model."""
        return self.priced.graph

    @property
    def cluster(self) -> Cluster:
        """The devices."""
        return self.priced.cluster


class FromModel(Facet, Generic[P]):
    """How a model on a cluster becomes a problem; ``InputError`` if a setting fits none of them, or no runtime."""

    pricing: type[Pricing]  #: What the pricing may be asked for: a declaration of settings.
    #: What planning models so is called, the value of ``--objective``, where that is not the problem's name.
    objective: str = ""
    #: What models it is about, and which of these are planned so unless something else is asked for.
    workloads: Collection[Workload] = tuple(Workload)
    preferred: Collection[Workload] = ()
    alone: bool = False  #: Whether one sample runs alone, as in runtimes without pipelines.
    #: Tokens in the cache of the step of decoding that ``hf:`` models are traced as unless something else is said, the
    #: first that a model has positions for; empty where they are traced on whole samples.
    traced_after: Sequence[int] = ()

    def refusal(self, cluster: Cluster) -> str | None:
        """What about a cluster the problem does not know, as the rest of a sentence; None if it knows all of it."""
        return None

    def usual(self, graph: Graph, cluster: Cluster) -> Mapping[str, Any]:
        """Settings of the pricing that a plan takes where they are not given, and that depend on model and cluster."""
        return {}

    def check(self, settings: Any, cluster: Cluster) -> None:
        """Refuse settings of the pricing that are wrong whatever the model is, before it is traced."""

    @abstractmethod
    def price(
        self, graph: Graph, cluster: Cluster, settings: Any, change: Callable[[P], P] | None = None
    ) -> Sequence[Priced[P]]:
        """The candidate problems, of which the best is taken; ``change`` is applied to each."""

    def stated(self, priced: Priced[P]) -> Any:
        """The plan that the settings state, which is then priced and not searched for; None if they state none."""
        return None

    def parts(self, priced: Priced[P], plan: Any) -> ModelParts | None:
        """What every stage of a plan has of the model; None where plans have no such stages."""
        return None

    def choose(self, answers: Sequence[tuple[Priced[P], Result[P, Any, Any]]]) -> int:
        """Number of the best of several candidates."""
        return 0

    def search_options(self, priced: Priced[P], options: Any) -> Any:
        """The options of a search with what the cluster, or the runtime that the settings name, says about them."""
        return options

    def refine(
        self, priced: Priced[P], result: Result[P, Any, Any], rows: Sequence[Rival], options: Any, monitor: Monitor
    ) -> RefinedPlan:
        """What is better than the answer in a way that the objective does not see; takes some seconds."""
        return RefinedPlan()
