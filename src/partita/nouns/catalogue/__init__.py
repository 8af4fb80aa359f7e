"""Data of devices and links, each number with its source, and the names people give them."""
