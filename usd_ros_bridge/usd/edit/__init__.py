"""Edits of an open stage while the bridge runs: variants, visibility, spawned assets, files read again."""
