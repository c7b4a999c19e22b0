"""ONNX models: read by the package ``onnx``, translated node by node, simplified, and printed as a program."""
