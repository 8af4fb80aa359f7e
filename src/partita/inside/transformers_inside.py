"""Private parts of transformers: its tables of models, and what it does at the sight of stand-ins."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from partita.inside.replacing import replaced

#: While it is "1", checks that compare values of tensors are left out.
_NO_CHECKS = "TRANSFORMERS_DISABLE_TORCH_CHECK"

#: The part of SciPy that a loss of transformers is made with, and the one function that it takes.
_SOLVERS, _SOLVER = "scipy.optimize", "linear_sum_assignment"


class _Solvers(ModuleType):
    """Stands for a part of SciPy, which is loaded when anything of it is called, or something else is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name != _SOLVER:
            return getattr(_loaded(), name)

        def solve(*args: Any, **kwargs: Any) -> Any:
            return getattr(_loaded(), name)(*args, **kwargs)

        return solve


def _drop_stand_in() -> None:
    if isinstance(sys.modules.get(_SOLVERS), _Solvers):
        del sys.modules[_SOLVERS]


def _loaded() -> Any:
    _drop_stand_in()
    return import_module(_SOLVERS)


def load_models() -> None:
    """Import what all models of transformers need; SciPy's solvers, a third of a second, wait for who calls them.

    A loss for the detection of objects calls one, and is imported with whatever model.
    """
    if not {_SOLVERS, "transformers.modeling_utils"} & sys.modules.keys() and find_spec("scipy") is not None:
        sys.modules[_SOLVERS] = _Solvers(_SOLVERS)
    try:
        import_module("transformers.modeling_utils")
    finally:
        _drop_stand_in()


def model_types() -> frozenset[str]:
    """The types that configurations may be of; nothing of them is imported."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return frozenset(CONFIG_MAPPING_NAMES)


def configuration_class(kind: str) -> Any:
    """The class of a type's configurations; what it cannot be imported for is raised."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING[kind]


def extractor_names() -> dict[str, str]:
    """The class that turns sounds into arguments, by type."""
    from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING_NAMES

    named = FEATURE_EXTRACTOR_MAPPING_NAMES.items()
    return {kind: name if isinstance(name, str) else name[0] for kind, name in named}


def classes_of(auto: str) -> Any:
    """Which classes one of the ``AutoModel`` family stands for, by the class of the configuration."""
    import transformers

    return getattr(transformers, auto)._model_mapping


def built(cls: Any, config: Any, dtype: Any, **attention: str) -> Any:
    """A model without weights in a number format; of a class that does not know how, its plain constructor's."""
    if hasattr(cls, "_from_config"):
        return cls._from_config(config, dtype=dtype, **attention)
    model = cls(config).to(dtype)
    model.config = config
    return model


def kernel_of(function: Callable[..., Any]) -> str | None:
    """The kernel that may replace a function, as transformers' decorator says; None if none may.

    ``use_kernel_func_from_hub_with_fallback`` leaves the kernel's name in the function that it returns, nowhere else.
    """
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or cells is None or not hasattr(function, "__wrapped__"):
        return None
    held = dict(zip(code.co_freevars, cells, strict=True))
    if not {"func_name", "package"} <= held.keys():
        return None
    value = held["func_name"].cell_contents
    return value if isinstance(value, str) and value.isidentifier() else None


def without_checks() -> AbstractContextManager[None]:
    """Within, nothing checks whether as many places are kept for an image as it has features: what runs is the same."""
    return replaced((os.environ, _NO_CHECKS, "1"))


def unpacked(counted: Callable[[Any], bool]) -> AbstractContextManager[None]:
    """Within, positions that the model ``counted`` itself are those of one sequence, not of several in a row.

    transformers looks for packed sequences in the positions by value, and under stand-ins assumes the worst: a mask of
    sequence × sequence and keys repeated for every query head, neither of which the real run has.
    """
    masking: Any = sys.modules.get("transformers.masking_utils")
    original: Any = getattr(masking, "find_packed_sequence_indices", None)

    def find_packed_sequence_indices(position_ids: Any) -> Any:
        return None if counted(position_ids) else original(position_ids)

    found = original is not None
    return replaced(*[(masking, "find_packed_sequence_indices", find_packed_sequence_indices)] * found)
