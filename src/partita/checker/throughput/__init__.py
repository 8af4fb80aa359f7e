"""Plans and certificates of throughput problems."""
