"""Exports: a plan as JSON and, later, other formats. Pure."""
