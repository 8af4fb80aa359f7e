"""The frontend of the transformers library: a model type or configuration file in, a traced graph out."""
