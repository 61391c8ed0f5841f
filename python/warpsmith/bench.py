"""`python -m warpsmith.bench`; from Python call the function `warpsmith.bench`."""

import sys

from warpsmith._measure import main

if __name__ == "__main__":
    sys.exit(main())
