"""A small second opinion: is the plan of a result worth what it says, and does its certificate prove its bound?

Nothing here knows a solver, a bound, an evaluator or a compiled loop of the package: problems and plans are read as
they stand in files, objectives are computed again from their definitions, and sums are exact (``fractions``). There is
a folder for each problem, with a file for its plans and one for each kind of certificate; ``listed`` has them all, and
``docs/proofs.md`` says why each certificate proves what it states.
"""
