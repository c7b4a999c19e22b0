"""Executors: steps of a program, node by node or whole, and what the host asks for between them."""
