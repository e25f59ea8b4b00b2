"""What every black-box test can import: the process helper of tests/lib and the protocol client of tests/conformance."""
import os
import sys

here = os.path.dirname(__file__)
for folder in ("lib", "conformance"):
    sys.path.insert(0, os.path.join(here, folder))
