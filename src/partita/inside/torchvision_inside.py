"""torchvision whose compiled part does not fit the installed torch, made good enough to be traced.

The wheels of torchvision in package registries are compiled for CUDA; beside a CPU build of torch their operators do
not load, and the first import ends in an error about ``torchvision::nms``. A trace needs no kernels: signatures are
declared instead, and torchvision's own rules for shapes and gradients, which are Python, then apply to them. Where the
compiled part loads, nothing is changed.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

#: Signatures as torchvision's compiled part declares them, one a line.
_SIGNATURES = Path(__file__).with_name("torchvision_signatures.txt")

#: Kept, because what a library declares goes with it.
_declared: list[Any] = []


def declare_where_missing() -> None:
    """From now on, importing torchvision declares its operators where its compiled part cannot be loaded."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds torchvision's module that loads the compiled part, and looks after it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torchvision.extension":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if not module._has_ops():
            _declare()
            module.__dict__["_has_ops"] = lambda: True


def _declare() -> None:
    import torch

    if _declared:
        return
    library = torch.library.Library("torchvision", "DEF")
    for signature in _SIGNATURES.read_text(encoding="utf-8").splitlines():
        library.define(signature)
    library.impl("_cuda_version", lambda: -1, "CompositeExplicitAutograd")
    _declared.append(library)
