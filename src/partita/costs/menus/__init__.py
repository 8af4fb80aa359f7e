"""Menus of layers: what every layer of a model costs at every tensor-parallel degree, with every way to save memory.

docs/menus.md says how splits are found and what every number means.
"""

from __future__ import annotations

from partita.costs.menus.entries import Collective, LayerMenu, MenuEntry
from partita.problems.hybrid.pricing import LayerMenus, hybrid_problem, layer_menus, model_flops

__all__ = ["Collective", "LayerMenu", "LayerMenus", "MenuEntry", "hybrid_problem", "layer_menus", "model_flops"]
