"""What the CUDA compiler made of the kernels, on a machine that may have no GPU: registers, and
whether they sufficed. Reads what the build kept (resources.py)."""

import re

import pytest
import resources

RECORD_ANEW = "record it: cmake --build build/release --target rapt_record_resources"


def test_every_file_of_kernels_says_what_they_use():
    for source, report in resources.reports().items():
        assert report is not None, f"{source} has no report beside its object"
        assert resources.parse(report), f"{source} has no kernels in its report"


@pytest.mark.parametrize("pattern", [r"Merge<", r"TinyKv<", r"SplitKvPartial<.*, true\}", r"SplitKvCombine<"])
def test_kernels_that_only_read_and_write_spill_nothing(pattern):
    found = {k: figures for k, figures in resources.built().items() if re.match(pattern, k.name)}
    assert found
    for kernel, (_, spilled, _, _) in found.items():
        assert spilled == 0, kernel


def test_tiny_kv_has_no_memory_of_its_own():
    for kernel, (_, _, stack, shared) in resources.built().items():
        assert not kernel.name.startswith("TinyKv<") or stack == shared == 0, kernel


def test_products_of_warpgroups_are_not_waited_for_one_by_one():
    for source, report in resources.reports().items():
        assert not re.findall(r".*wgmma.*serialized.*", report or ""), source


def test_kernels_use_what_is_recorded():
    compiler, recorded = resources.recorded()
    if compiler != resources.COMPILER:
        pytest.skip(f"the record is of nvcc {compiler}, and this is {resources.COMPILER}")
    built = resources.built()
    both = {k.architecture for k in built} & {k.architecture for k in recorded}
    if not both:
        pytest.skip("the record has none of this build's architectures")
    built = {k: figures for k, figures in built.items() if k.architecture in both}
    recorded = {k: figures for k, figures in recorded.items() if k.architecture in both}
    differences = []
    for kernel in sorted({*built, *recorded}, key=str):
        if kernel not in recorded:
            differences.append(f"{kernel} is new")
        elif kernel not in built:
            differences.append(f"{kernel} is gone")
        else:
            rows = zip(resources.COLUMNS, recorded[kernel], built[kernel], strict=True)
            changes = [f"{name} {was} -> {now}" for name, was, now in rows if was != now]
            differences += [f"{kernel}: {', '.join(changes)}"] if changes else []
    assert not differences, "\n".join([*differences, f"If that is as it should be, {RECORD_ANEW}"])
