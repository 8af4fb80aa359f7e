"""The contiguous search for the variants of the throughput problem; see ``docs/variants.md``."""
