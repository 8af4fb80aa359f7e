"""Schedules and certificates of makespan problems."""
