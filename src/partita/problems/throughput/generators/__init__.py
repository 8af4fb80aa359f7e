"""Making throughput problems: random graphs with weights like published ones, and other problems made plain."""
