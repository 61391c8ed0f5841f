"""`python -m warpsmith.bench`; from Python call the function `warpsmith.bench`."""

import sys

from warpsmith import _measure

if __name__ == "__main__":
    sys.exit(_measure.main())
# What `import warpsmith.bench` puts into the package is what stands here: the function of the name,
# which the import system finds by its specification.
_measure.bench.__spec__ = __spec__
sys.modules[__name__] = _measure.bench
