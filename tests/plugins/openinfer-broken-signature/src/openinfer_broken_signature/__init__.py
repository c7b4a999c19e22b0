"""A plugin with an argument that its hook does not have."""
