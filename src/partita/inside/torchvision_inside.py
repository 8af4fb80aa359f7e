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
from types import ModuleType
from typing import Any

_ROWS = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_BACK = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_BINS = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_STEPS = ", ".join(
    f"SymInt {name}"
    for name in ("stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w", "groups", "offset_groups")
)
_DEFORMED = f"Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {_STEPS}, bool use_mask"

#: Signatures as torchvision's compiled part declares them.
_SCHEMAS = (
    "_cuda_version() -> int",
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    f"roi_align({_ROWS}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward(Tensor grad, Tensor rois, {_BINS}, {_BACK}, int sampling_ratio, bool aligned) -> Tensor",
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, "
    f"int rois_zero_point, {_BINS}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool({_ROWS}) -> (Tensor, Tensor)",
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_BINS}, {_BACK}) -> Tensor",
    f"ps_roi_align({_ROWS}, int sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_map, {_BINS}, int sampling_ratio, {_BACK}) "
    "-> Tensor",
    f"ps_roi_pool({_ROWS}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_map, {_BINS}, {_BACK}) -> Tensor",
    f"deform_conv2d({_DEFORMED}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {_DEFORMED}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)

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
    for schema in _SCHEMAS:
        library.define(schema)
    library.impl("_cuda_version", lambda: -1, "CompositeExplicitAutograd")
    _declared.append(library)
