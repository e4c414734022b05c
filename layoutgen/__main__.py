"""Run the command line as `python -m layoutgen`."""

from layoutgen.cli import main

main()
