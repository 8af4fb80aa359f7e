"""Running plans: a plan of a traced PyTorch model on processes, checked against the model that is not split."""
