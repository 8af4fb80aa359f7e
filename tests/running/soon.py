"""How long tests wait for what should be over soon.

Machines that run tests may be busy, so nothing here measures speed (``benchmarks/`` does): the limit only tells what
ends from what would go on, so it is used with work or time limits that are far longer.
"""

#: Seconds after which something that was told to end counts as not having done so.
SOON_S = 90.0
