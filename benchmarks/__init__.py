"""What the bridge costs, measured beside what it is compared with: `make bench`."""
