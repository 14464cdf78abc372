"""What the benchmark command is made of."""
