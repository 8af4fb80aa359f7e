"""Strategies of layers: what every layer costs at every tensor-parallel degree, with every way to save memory.

docs/strategy-spaces.md says how splits are found and what every number means.
"""
