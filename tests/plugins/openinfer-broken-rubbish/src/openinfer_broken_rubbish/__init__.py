"""A plugin whose hook yields rubbish half-way."""
