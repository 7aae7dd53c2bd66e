"""Stage to records: read what a plan and a physics scene are made of."""
