"""A placement learned on the problem at hand."""
