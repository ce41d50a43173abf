"""Headers that a program of tools wrote are what it writes."""

import importlib.util


def test_the_wgmma_instructions_are_up_to_date(source_dir):
    script = source_dir / "tools/wgmma_instructions.py"
    spec = importlib.util.spec_from_file_location("wgmma_instructions", script)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    assert program.HEADER.read_text() == program.header(), f"run {script}"
