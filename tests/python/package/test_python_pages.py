"""The pages docs/python.md and docs/jax.md: their Python works as it stands.

What a page has before its first section is run, and then a section, in the names that this left. What
wants a library that is not here is skipped."""

import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"
OTHERS_LIBRARIES = {"torch", "jax", "transformers"}


def sections(page):
    """All Python of each section, by its title; what comes before them is one, too."""
    parts = re.split(r"^## ", (DOCS / page).read_text(), flags=re.MULTILINE)
    code = {
        part.partition("\n")[0]: "\n".join(re.findall(r"```python\n(.*?)```", part, re.DOTALL))
        for part in parts
    }
    return {title: lines for title, lines in code.items() if lines}


SECTIONS = [(page, title) for page in ("python.md", "jax.md") for title in sections(page)]


def run(page, title):
    """The names that are there in the end."""
    code, names = sections(page), {}
    for each in dict.fromkeys([next(iter(code)), title]):
        try:
            exec(compile(code[each], f"{page}: {each}", "exec"), names)
        except ModuleNotFoundError as missing:
            if missing.name not in OTHERS_LIBRARIES:
                raise
            pytest.skip(f"{missing.name} is not installed; rapt does not need it")
    return names


@pytest.mark.parametrize("page, title", SECTIONS)
def test_the_lines_of_a_section_run(page, title):
    run(page, title)


def test_a_compiled_program_says_what_the_page_shows():
    names = run("jax.md", "# rapt in JAX")
    program = names["attend"].lower(names["q"], names["k"], names["v"]).as_text()
    (shown,) = re.findall(r"```text\n(.*?)```", (DOCS / "jax.md").read_text(), re.DOTALL)
    (problem,) = re.findall(r'problem = ".*?"', shown)
    assert shown.partition("(")[0] in program and problem in program


@pytest.mark.parametrize("page, kinds", [("python.md", {"python"}), ("jax.md", {"python", "text"})])
def test_no_block_is_of_a_kind_that_nobody_runs(page, kinds):
    fences = re.findall(r"^```(.*)$", (DOCS / page).read_text(), re.MULTILINE)
    assert set(fences[::2]) == kinds and set(fences[1::2]) == {""}
