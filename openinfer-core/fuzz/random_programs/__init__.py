"""Random programs: where they are run, and how they are shrunk. `openinfer.testing.random_programs` draws them."""
