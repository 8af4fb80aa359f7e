"""Random makespan problems, for comparing solvers and bounds."""
