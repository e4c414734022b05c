"""Run the command line as `python -m layoutgen`."""

from layoutgen.cli import run

if __name__ == "__main__":
    run()
