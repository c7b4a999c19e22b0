"""Writers of foreign formats, found by scanning: a module has NAME, SUFFIXES and `export`."""
