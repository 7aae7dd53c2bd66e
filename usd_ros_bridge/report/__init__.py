"""Reports about an asset for reviews: one HTML page, and its findings for code scanning and annotations."""
