"""The public functions with settings, with a signature for every objective and problem: ``tests/signatures``."""
