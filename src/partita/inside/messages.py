"""Texts of torch's and transformers' errors that say what is wrong and have no class of their own.

Each is found by its words; ``tests/inside`` makes every one of these errors.
"""

from __future__ import annotations

import re

# -- torch: values of tensors that have none ----------------------------------------------------------------------

#: What is in an error, in small letters, where something looks at values of tensors without data.
_VALUES = ("meta tensor", "meta device", "data-dependent", "faketensor")


def looks_at_values(text: str) -> bool:
    """Whether an error is about values of tensors that have none."""
    return any(said in text.lower() for said in _VALUES)


#: The sizes of a nested tensor, which stand-ins have none of; a tensor without data that is handed to numpy.
NESTED_SIZES = "shape_env must not be None"
NUMPY = ".numpy() is not supported"

# -- torch: number formats and sizes that do not go together ------------------------------------------------------


def is_of_formats(text: str) -> bool:
    """Whether an error may come from number formats that do not go together."""
    return any(said in text for said in ("scalar type", "dtype", "Input type", "BFloat16"))


#: A product of matrices: the shape it ``got`` and the features that it ``takes``; the same of the two below.
PRODUCT = re.compile(r"same reduction dim, but got \[(?P<got>[\d, ]+)\] X \[(?P<takes>\d+), \d+\]")
CHANNELS = re.compile(r"expected input\[(?P<got>[\d, ]+)\] to have (?P<takes>\d+) channels")
NORM = re.compile(
    r"expected input with shape \[[*, ]*(?P<takes>\d+)\], but got input of size\s?(?:torch.Size\()?\[(?P<got>[\d, ]+)\]"
)
#: Features that do not go with a row of weights, both with all their sides.
ROW = re.compile(
    r"at -1! Mismatching argument at index \d had torch.Size\(\[(?P<got>[\d, ]+)\]\); "
    r"but expected shape should be broadcastable to \[(?:[\d, ]+, )?(?P<takes>\d+)\]"
)
#: Rows that are cut into others, with the sides of all: of several codebooks, or of groups.
CODES = re.compile(r"shape '\[(?P<form>-1, \d+, \d+|\d+, \d+, -1)\]' is invalid for input of size (?P<size>\d+)")
GROUPS = re.compile(r"shape '\[0, (?P<group>\d+(, \d+)*)\]' is invalid for input of size (?P<size>\d+)")


#: The mean of whole numbers; a convolution that got what is no image; one over three colours that got one.
MEAN_OF_INTEGERS = "mean(): could not infer output dtype"
FLAT_IMAGES = "4D (batched) input to conv2d, but got input of size"
GREY_IMAGES = "to have 3 channels, but got 1 channels"

# -- transformers -------------------------------------------------------------------------------------------------

#: A check of a model's code that says which shape it wants: several images of a sample.
SEVERAL_IMAGES = re.compile(r"must be a 5D tensor of shape \(batch_size, (?P<several>\d+), ")


def missing_package(text: str) -> str | None:
    """The package without which a model cannot be built; None if the error is about something else."""
    _, found, rest = text.partition(" requires the ")
    return rest.partition(" ")[0] if found else None
