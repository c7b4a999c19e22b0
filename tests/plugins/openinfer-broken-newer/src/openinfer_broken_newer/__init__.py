"""A plugin for a later version of the hooks."""
