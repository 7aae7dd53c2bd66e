"""OpenUSD: stage to records. The only package that imports `pxr`."""
