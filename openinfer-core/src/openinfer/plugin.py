"""The plugin through which core offers its own operators: the hooks are those that third parties use."""

OPENINFER_API = 1
