"""TF: transforms in and out, and who else sends them."""
