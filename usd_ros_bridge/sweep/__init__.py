"""Sweeps: many deterministic runs of an asset over parameters. One run is made here; Ray workers make many."""
