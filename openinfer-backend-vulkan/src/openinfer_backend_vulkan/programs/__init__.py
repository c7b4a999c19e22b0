"""Whole programs on the device: a plan becomes functions of the host that queue commands (`program.DeviceProgram`)."""
