"""TestBadServers runs these tests with the URL of its server in POOLD_URL."""

import pytest

import poold as client
from poold import poold

client.PATIENCE = 0.1


@pytest.mark.parametrize("target, code, status, after, text", [
    ("budget", "", 503, 2700, ": 503: "),
    ("date", "", 503, 0, ": 503: "),
    ("paused", "paused", 503, 300, ": paused: the file pauses it$"),
    ("hang", "", 0, 1, "does not answer"),
])
def test_take_ends(poold, target, code, status, after, text):
    with pytest.raises(client.PooldError, match=text) as caught:
        poold.take(target, 1)
    error = caught.value
    assert (error.code, error.status, error.retry_after) == (code, status, after)


def test_a_report_is_repeated(poold):
    poold.report(poold.take("turnstile"), "accepted")


def test_a_wrong_address_ends_before_a_test_does(monkeypatch):
    pauses = []
    monkeypatch.setattr(client.time, "sleep", pauses.append)
    with pytest.raises(client.PooldError, match="is it running, and POOLD_URL right"):
        client.Poold("http://127.0.0.1:9").take("login", 60)
    assert len(pauses) == 14
