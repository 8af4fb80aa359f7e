"""What can be asked of a deployment."""

from __future__ import annotations

import pytest

from partita.ground.errors import InputError
from partita.problems.serving.options import prices_per_hour

KINDS = ("H100-80GB", "L40S")


def test_prices_are_by_kind_as_the_catalogue_reads_names() -> None:
    assert prices_per_hour(None, KINDS) == {}
    assert prices_per_hour("H100=2.5, l40s=0.75", KINDS) == {"H100-80GB": 2.5, "L40S": 0.75}
    assert prices_per_hour({"L40S": 1, "H100-80GB": 2}, KINDS) == {"L40S": 1, "H100-80GB": 2}
    # Of two sizes, the one that is here.
    assert prices_per_hour("A100=2", ("A100-40GB",)) == {"A100-40GB": 2.0}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("H100", "'H100' is not of the form KIND=X, such as H100=2.5"),
        ("H100=", "'H100=' is not of the form KIND=X"),
        ("H100=much,L40S=1", "'H100=much' is not of the form KIND=X"),
        ("=1", "'=1' is not of the form KIND=X"),
        ("H100=1", "has no price of L40S; give one of every kind"),
        ("H100=1,H100-80GB=2,L40S=1", "names H100-80GB twice"),
        ("H100=1,L40S=-1", "L40S is -1.0; it must be finite and positive"),
        ("H100=1,L40S=0", "L40S is 0.0"),
        ("H100=1,L40S=nan", "L40S is nan"),
        ("T4=1", "names T4, and the cluster has H100-80GB, L40S; name these"),
        ("X99=1", "names X99, and the cluster has H100-80GB, L40S"),
    ],
)
def test_prices_that_mean_nothing_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        prices_per_hour(text, KINDS)
