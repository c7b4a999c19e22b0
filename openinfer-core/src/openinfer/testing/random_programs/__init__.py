"""Random whole programs: how they are drawn, run in several places, and compared."""
