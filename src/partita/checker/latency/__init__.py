"""Plans and certificates of latency problems."""
