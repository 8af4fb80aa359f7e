"""Compiled loops of layer placements."""
