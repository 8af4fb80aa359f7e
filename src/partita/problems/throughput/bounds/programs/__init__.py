"""Bounds by mixed-integer programs, which the backends of ``partita.engines.mip`` solve."""
