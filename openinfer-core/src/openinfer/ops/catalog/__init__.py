"""The built-in operators, one module per family; every `OpSchema` in them is offered (found by scanning)."""
