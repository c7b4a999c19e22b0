"""Pictures of a graph: Mermaid and Graphviz text, one self-contained HTML page, and what a notebook shows."""

from openinfer.draw.dot_text import dot
from openinfer.draw.html_page import html
from openinfer.draw.mermaid_text import mermaid
from openinfer.draw.notebook import Folded, Picture, Table, fragment, graph_parts, notebook_html

__all__ = [
    "Folded",
    "Picture",
    "Table",
    "dot",
    "fragment",
    "graph_parts",
    "html",
    "mermaid",
    "notebook_html",
]
