"""Placements and certificates of mapping problems."""
