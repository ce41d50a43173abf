"""The NumPy reference of dropout itself, against published numbers."""

import dropout_reference
import numpy as np
import pytest


# Of Random123's kat_vectors, "philox4x32 10": counter, key, result.
@pytest.mark.parametrize(
    "counter, key, expected",
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_gives_the_published_numbers(counter, key, expected):
    assert [int(word) for word in dropout_reference.philox(counter, key)] == expected


def test_it_drops_as_many_pairs_as_it_says():
    kept = dropout_reference.kept((1, 2), 0.3, 0, 0, 400, 400)
    assert kept.mean() == pytest.approx(1 - 77 / 256, abs=0.006)


def test_no_two_rows_or_columns_are_alike():
    kept = dropout_reference.kept((1, 2), 0.5, 3, 4, 128, 128)
    assert len(np.unique(kept, axis=0)) == len(np.unique(kept, axis=1)[0]) == 128
