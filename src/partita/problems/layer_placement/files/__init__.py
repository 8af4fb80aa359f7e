"""Layer placements in files of others."""
