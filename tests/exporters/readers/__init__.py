"""Readers of what exporters write, one a runtime, written from the runtimes' documentation and not from the exporters.

Each makes the plan of an exported form: ``ReadPlan``.
"""
