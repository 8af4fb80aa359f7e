"""The heavier rooms of a problem, each with a plain one for problems that bring none."""
