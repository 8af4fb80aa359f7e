"""Search for acyclic splits over identical devices: over orders that are cut into blocks, and over partitions."""
