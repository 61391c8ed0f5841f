"""What is logged under `warpsmith`: libraries, fallbacks, and at DEBUG which rung a call takes.

The quick path of a call logs nothing; it costs what it costs. `warpsmith.explain` asks.
"""

import logging

LOG = logging.getLogger("warpsmith")
LOG.addHandler(logging.NullHandler())
