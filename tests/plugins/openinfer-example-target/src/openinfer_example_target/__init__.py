"""A synth target of its own: writes a listing of the plan."""
