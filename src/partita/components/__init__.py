"""Components of all sorts: what is added to them, and what there is."""
