"""A device over a library of the array API standard."""
