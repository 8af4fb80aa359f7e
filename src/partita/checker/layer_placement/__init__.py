"""Plans and certificates of layer placements."""
