"""Builders of tests and benchmarks: plans by hand, stages as files, and what stands in for engines and clients."""
