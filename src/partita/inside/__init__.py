"""What partita knows of the insides of other libraries, each thing under a public name with the reason for it.

Nobody else in the package touches private parts of other libraries, and ``tests/inside`` has a test of each that fails
when a library changes what it means. Every file imports its library, so it is imported by who needs that library.
"""
