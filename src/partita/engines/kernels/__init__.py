"""The compiled inner loops: plain arrays in and out. Importing this package compiles and imports nothing."""
