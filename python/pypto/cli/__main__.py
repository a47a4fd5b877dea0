"""`python -m pypto.cli`."""

from pypto.cli import main

main()
