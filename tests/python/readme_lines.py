"""Runs the README's Python lines with the interpreter that runs this: they must work as they stand
wherever rapt is installed."""

import pathlib
import re

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


def lines():
    """The first block of Python."""
    return re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]


if __name__ == "__main__":
    names = {}
    exec(lines(), names)
    import rapt

    print(f"rapt {rapt.__version__}: out has shape {names['out'].shape}")
