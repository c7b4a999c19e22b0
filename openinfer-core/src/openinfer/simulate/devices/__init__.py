"""Devices: what a backend offers, how one is opened and guarded, and operators bound to it."""
