"""Change of a running bridge: compare, prepare, commit. Only differences close and open."""
