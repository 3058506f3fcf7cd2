"""How good a network is, with intervals."""
