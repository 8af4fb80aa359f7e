"""Which operators a runtime runs as one kernel: rules over types of operators, and graphs coarsened by them."""
