"""Plugins: what they describe, the hooks they implement, how they are loaded, and what they offer together."""
