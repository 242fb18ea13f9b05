"""Everything that knows the hardware: device identity, memory, who else uses it, the rig's lock."""
