"""Random ONNX graphs: drawing, running in onnxruntime, importing, comparing, shrinking."""
