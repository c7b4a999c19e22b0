"""Random whole programs: how they are drawn, run in several places, compared, and shrunk."""
