"""What bundles with a host program in C share, whatever carries their kernels out: names, ports, weights, tools."""
