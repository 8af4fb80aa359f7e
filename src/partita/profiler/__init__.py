"""Measuring models where they run: processes that time every operator, and messages between them."""
