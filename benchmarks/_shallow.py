"""Shallow versions of transformers configurations: full width, few layers."""

from __future__ import annotations

from typing import Any

from partita.frontends.hf.configuration import read_configuration
from partita.ground.errors import InputError

#: Fields that count layers of the same kind; lists count those of each stage.
_COUNTS = (
    "num_hidden_layers",
    "num_layers",
    "n_layer",
    "n_layers",
    "encoder_layers",
    "decoder_layers",
    "num_encoder_layers",
    "num_decoder_layers",
    "depth",
    "n_block",
)


def shallow_fields(kind: str, depth: int) -> dict[str, str]:
    """Changes of a type's default configuration that leave at most ``depth`` layers of each kind.

    Empty for types that have no default configuration. Nested configurations are changed, too.
    """
    try:
        config = read_configuration(kind, {})
    except InputError:
        return {}
    found: dict[str, str] = {}
    _collect(config, "", depth, max(depth, _last_named(config)), found)
    return found


def _last_named(config: Any) -> int:
    """How many layers there must be for those that a configuration names by number, counted from either end."""
    last = 0
    for name, value in vars(config).items():
        if hasattr(value, "to_dict"):
            last = max(last, _last_named(value))
        elif any(word in name for word in _NUMBERS):
            named = value if isinstance(value, (list, tuple)) else [value]
            last = max([last, *(i + 1 if i >= 0 else -i for i in named if isinstance(i, int))])
    return last


#: Words in the names of fields that hold numbers of layers of an image or sound tower.
_NUMBERS = ("feature_layer", "layers_indices", "layer_indices", "deepstack", "out_indices")


def _collect(config: Any, prefix: str, depth: int, towers: int, found: dict[str, str]) -> None:
    """Fields of a configuration and its parts; those of towers keep the layers that are named."""
    fields = config.to_dict()
    for name in _COUNTS:
        value = fields.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > depth:
            found[prefix + name] = str(depth)
    shared = fields.get("num_kv_shared_layers")
    if found and isinstance(shared, int) and shared >= depth:
        # The layers that the others have keys and values from are gone.
        found[f"{prefix}num_kv_shared_layers"] = "0"
    for name, part in vars(config).items():
        if hasattr(part, "to_dict") and hasattr(part, "model_type"):
            _collect(part, f"{prefix}{name}.", depth if "text" in name else towers, towers, found)
