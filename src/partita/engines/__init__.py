"""Engines without opinions: compiled kernels, solvers of programs, other processes, and what a search run is."""
