"""Plans and certificates of hybrid problems."""
