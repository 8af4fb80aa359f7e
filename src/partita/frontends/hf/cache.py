"""One decoding step of a transformers model: a key-value cache that stays where its layer's attention runs.

Runtimes allocate the cache once and write a new token's keys and values into their places. Here the cache of a layer is
two buffers of the module that asks for it; attention reads them whole after the new rows are written in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicCache

from partita.frontends.options import CACHED
from partita.frontends.run import run_module, running_modules
from partita.ground.errors import InputError


def resident_cache(model: Any, kwargs: Mapping[str, Any], context: int) -> Any:
    """Give a model the buffers of a cache for ``context`` tokens and one more; returns the cache to call it with.

    The model runs once, on fake tensors, to see which modules ask for which keys and values. A model that keeps none,
    or keeps something else, is an ``InputError``.
    """
    probe = _Probe(model.config.get_text_config(decoder=True))

    def tell(running: list[Any]) -> None:
        probe.module = running[-1] if running else None

    with running_modules(tell):
        run_module(model, (), {**kwargs, "past_key_values": probe}, training=False)
    if not probe.seen:
        raise InputError(f"{type(model).__name__} keeps no key-value cache, so that there is no step of decoding")
    layers = []
    for index in range(max(probe.seen) + 1):
        if index not in probe.seen:
            raise InputError(f"layer {index} of {type(model).__name__} keeps no key-value cache, unlike others")
        module, keys, values, window = probe.seen[index]
        rows = context + 1 if window is None else min(context + 1, window)
        for name, like in zip(CACHED, (keys, values), strict=True):
            shape = (*like.shape[:2], rows, like.shape[3])
            module.register_buffer(name, torch.empty(shape, dtype=like.dtype, device="meta"))
        layers.append(_Resident(module, context, rows, window is not None))
    return Cache(layers=layers)


class _Probe(DynamicCache):  # type: ignore[misc]
    """Notes who asks for what, and hands back what it gets."""

    def __init__(self, config: Any) -> None:
        super().__init__(config=config)
        self.module: Any = None
        self.seen: dict[int, tuple[Any, Any, Any, int | None]] = {}

    def update(self, keys: Any, values: Any, layer_idx: int, *_: Any, **__: Any) -> tuple[Any, Any]:
        if keys.dim() != 4 or keys.shape[2] != 1 or values.dim() != 4 or values.shape[2] != 1:
            raise InputError(f"the cache of layer {layer_idx} is not of the form batch × heads × tokens × size")
        layer = self.layers[layer_idx] if layer_idx < len(self.layers) else None
        self.seen[layer_idx] = self.module, keys, values, getattr(layer, "sliding_window", None)
        return keys, values

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise InputError("the model keeps states other than keys and values, which decoding steps do not know yet")

    update_conv_state = update_recurrent_state = update_indexer = _refuse


class _Resident(CacheLayerMixin):  # type: ignore[misc]
    """The cache of one layer, in the buffers of a module."""

    def __init__(self, module: Any, context: int, rows: int, sliding: bool) -> None:
        super().__init__()
        self.module, self.context, self.rows, self.is_sliding = module, context, rows, sliding
        self.is_initialized = True

    def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
        """Nothing is left to do."""

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
        """Write the new rows in place; all of them are read."""
        keys, values = self.module.cached_keys, self.module.cached_values
        keys[:, :, -1:].copy_(key_states)
        values[:, :, -1:].copy_(value_states)
        return keys, values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many rows are looked at, and the place of the first one in the text."""
        return self.rows, self.context + query_length - self.rows

    def get_seq_length(self) -> int:
        """Tokens before this step."""
        return self.context

    def get_max_length(self) -> int:
        """Rows there are."""
        return self.rows
