"""What every room stands on: errors, units, rounding, checks of fields, and graphs without a meaning."""
