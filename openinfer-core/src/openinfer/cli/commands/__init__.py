"""Subcommands of `openinfer`: each module holds one click command under the name ``command``."""
