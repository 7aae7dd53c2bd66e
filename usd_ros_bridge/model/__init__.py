"""Data types of every layer: records (as authored), plan (resolved), physics, state. Standard library and numpy."""
