"""Data types of every layer: records (as authored), plan (resolved), scene, state. Standard library and numpy only."""
