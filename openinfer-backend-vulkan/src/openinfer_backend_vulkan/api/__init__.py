"""The Vulkan API: raw calls through the binding, the machine's devices, an opened device and its fences.

`probe` and `facts` describe devices to people. Only `native` touches the binding.
"""
