"""Bounds by mixed-integer programs, which the backends of ``partita.mip`` solve."""
