"""``python -m openinfer`` is the command `openinfer`."""

from openinfer.cli import main

if __name__ == "__main__":
    main(prog_name="openinfer")
