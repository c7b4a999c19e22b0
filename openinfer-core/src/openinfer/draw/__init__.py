"""Pictures of a graph: Mermaid and Graphviz text, a self-contained HTML page or SVG, and what a notebook shows."""

from openinfer.draw.dot_text import dot
from openinfer.draw.html_page import html
from openinfer.draw.mermaid_text import mermaid
from openinfer.draw.notebook import Folded, Picture, Table, fragment, graph_parts, model_html, notebook_html
from openinfer.draw.svg_picture import svg

__all__ = [
    "Folded",
    "Picture",
    "Table",
    "dot",
    "fragment",
    "graph_parts",
    "html",
    "mermaid",
    "model_html",
    "notebook_html",
    "svg",
]
