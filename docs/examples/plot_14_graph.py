"""
A causal graph of your own
==========================

``plots.causal_graph`` draws any graph, given the parents of every node.
"""

from dhsic import plots

plots.causal_graph([(), (0,), (0, 1), (2,)], ["season", "rain", "wet", "slippery"])
