"""What editors need: highlighting (Pygments, TextMate), and a language server.

Each needs a library or nothing beyond core's own, and none is imported here.
"""
