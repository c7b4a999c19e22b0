"""Imports programs that `torch.export` saved."""
