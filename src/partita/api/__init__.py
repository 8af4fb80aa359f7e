"""The public library: what the command line and users call, and the answers that they get; see ``docs/python.md``."""
