"""`python -m tuner`."""

from tuner.cli.app import main

if __name__ == "__main__":
    main()
