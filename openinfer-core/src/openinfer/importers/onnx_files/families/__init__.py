"""Translators of ONNX operators, one module for each family; modules are found by listing this folder."""
