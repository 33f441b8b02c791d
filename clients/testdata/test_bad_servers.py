"""TestBadServers runs these tests with the URL of its server in POOLD_URL."""

import pytest

import poold as client
from poold import poold

client.PATIENCE = 0.1


@pytest.mark.parametrize("target, text", [("budget", ": 503: "), ("date", ": 503: "), ("hang", "does not answer")])
def test_take_ends(poold, target, text):
    with pytest.raises(client.PooldError, match=text):
        poold.take(target, 1)
