"""A pytest fixture that takes tokens from poold. Copy it beside your tests, and import the fixture
in conftest.py: `from poold import poold`. POOLD_URL and POOLD_KEY in the environment name the
daemon and a key with the scope token. It needs only the standard library and pytest."""

import http.client
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

import pytest

PATIENCE = 10  # seconds until a server that sends nothing counts as lost, after the wait of a take


class PooldError(RuntimeError):
    """A refusal, or no answer. pause: seconds until a repetition may help; 0 = it does not."""

    def __init__(self, text, pause):
        super().__init__(text)
        self.pause = pause


class Poold:
    def __init__(self, url, key=None):
        self.url, self.key = url.rstrip("/"), key

    def take(self, target, seconds=60):
        """Return a token: a dict with id, target, token, expires_at and more. While there is none, or
        no answer comes, try again for `seconds`. The Idempotency-Key stays the same, so that a lost
        answer costs no token."""
        end = time.monotonic() + seconds
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        while True:
            wait = max(0, min(20, int(end - time.monotonic()) - 1))
            try:
                path = f"/pool/{urllib.parse.quote(target, safe='')}/token?wait={wait}s"
                return json.loads(self._send(path, headers, wait=wait))
            except PooldError as error:
                if not error.pause or time.monotonic() + error.pause > end:
                    raise
                time.sleep(error.pause)

    def report(self, token, outcome):
        """Tell poold and the service whether the site "accepted" or "rejected" a token."""
        path = f"/pool/{urllib.parse.quote(token['target'], safe='')}/token/{token['id']}/report"
        self._send(path, {"Content-Type": "application/json"}, json.dumps({"outcome": outcome}).encode())

    def _send(self, path, headers, body=None, wait=0):
        if self.key:
            headers["Authorization"] = "Bearer " + self.key
        try:
            request = urllib.request.Request(self.url + path, body, headers)
            with urllib.request.urlopen(request, timeout=wait + PATIENCE) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            after = error.headers.get("Retry-After") or ""  # of poold: seconds
            pause = 1 if error.code in (502, 504) else int(after) if after.isdecimal() else 0  # 502 and 504: a proxy
            raise PooldError(f"poold at {self.url}: {error.code}: {error.read().decode()}", pause) from None
        except (OSError, http.client.HTTPException) as error:
            raise PooldError(f"poold at {self.url} does not answer: {error!r}", 1) from None


@pytest.fixture
def poold():
    return Poold(os.environ.get("POOLD_URL") or "http://127.0.0.1:8080", os.environ.get("POOLD_KEY"))
