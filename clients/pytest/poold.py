"""A pytest fixture that takes tokens from poold. Copy it beside your tests, and import the fixture
in conftest.py: `from poold import poold`. POOLD_URL and POOLD_KEY in the environment name the
daemon and a key with the scope token. It needs only the standard library and pytest."""

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

import pytest


class Poold:
    def __init__(self, url, key=None):
        self.url, self.key = url.rstrip("/"), key

    def take(self, target, seconds=60):
        """Return a token: a dict with id, target, token, expires_at and more. While there is none,
        try again for `seconds`. The Idempotency-Key stays the same, so that a lost answer costs no
        token."""
        end = time.monotonic() + seconds
        path = f"/pool/{urllib.parse.quote(target, safe='')}/token?wait=20s"
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        while True:
            try:
                return json.loads(self._send(path, headers))
            except urllib.error.HTTPError as error:
                pause = int(error.headers.get("Retry-After") or 0)
                if not pause or time.monotonic() + pause > end:
                    raise RuntimeError(f"poold: {error.code}: {error.read().decode()}") from None
                time.sleep(pause)

    def report(self, token, outcome):
        """Tell poold and the service whether the site "accepted" or "rejected" a token."""
        path = f"/pool/{urllib.parse.quote(token['target'], safe='')}/token/{token['id']}/report"
        self._send(path, {"Content-Type": "application/json"}, json.dumps({"outcome": outcome}).encode())

    def _send(self, path, headers, body=None):
        if self.key:
            headers["Authorization"] = "Bearer " + self.key
        with urllib.request.urlopen(urllib.request.Request(self.url + path, body, headers)) as answer:
            return answer.read()


@pytest.fixture
def poold():
    return Poold(os.environ.get("POOLD_URL", "http://127.0.0.1:8080"), os.environ.get("POOLD_KEY"))
