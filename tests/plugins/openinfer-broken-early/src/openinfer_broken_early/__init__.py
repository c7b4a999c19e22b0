"""A plugin that sorts before `cpu`, offers a device of that name, and prints."""
