"""ONNX frontend: a model file in, a Graph out."""
