"""A plugin whose hook raises half-way."""
