"""Subcommands of `oinf`: each module here has `add_to(subparsers)` and is found by scanning the package."""
