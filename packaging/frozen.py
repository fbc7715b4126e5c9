"""Where the frozen program begins: the same as the `onefill` command of an installation."""

from app.cli import main

if __name__ == "__main__":
    main()
