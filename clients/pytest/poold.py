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
    """A refusal, or no answer. docs/operating.md lists the codes."""

    def __init__(self, text, code="", status=0, retry_after=0):
        super().__init__(text)
        self.code = code  # "" = no answer, or one of a proxy
        self.status = status  # of HTTP; 0 = no answer
        self.retry_after = retry_after  # seconds; 0 = a repetition does not help


class Poold:
    def __init__(self, url, key=None):
        self.url, self.key = url.rstrip("/"), key

    def take(self, target, seconds=60):
        """Return a token: a dict with id, target, token, expires_at and more. While there is none, or
        no answer comes, try again for `seconds`. The Idempotency-Key stays the same, so that a lost
        answer costs no token."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        path = f"/pool/{urllib.parse.quote(target, safe='')}/token?wait="
        return json.loads(self._repeat(seconds, lambda wait: self._send(f"{path}{wait}s", headers, wait=wait)))

    def report(self, token, outcome):
        """Tell poold and the service whether the site "accepted" or "rejected" a token. Try again for
        some seconds; equal reports count once."""
        path = f"/pool/{urllib.parse.quote(token['target'], safe='')}/token/{token['id']}/report"
        body = json.dumps({"outcome": outcome}).encode()
        self._repeat(15, lambda _: self._send(path, {"Content-Type": "application/json"}, body))

    def _repeat(self, seconds, attempt):
        """Call attempt until it succeeds, or until a further one would not help or come after `seconds`,
        or 15 in a row had no answer. It gets the seconds for which poold may wait."""
        end, lost = time.monotonic() + seconds, 0
        while True:
            try:
                return attempt(max(0, min(20, int(end - time.monotonic()) - 1)))
            except PooldError as error:
                lost = 0 if error.status else lost + 1
                if not error.retry_after or lost == 15 or time.monotonic() + error.retry_after > end:
                    raise
                time.sleep(error.retry_after)

    def _send(self, path, headers, body=None, wait=0):
        if self.key:
            headers["Authorization"] = "Bearer " + self.key
        try:
            request = urllib.request.Request(self.url + path, body, headers)
            with urllib.request.urlopen(request, timeout=wait + PATIENCE) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            after = error.headers.get("Retry-After") or ""  # of poold: seconds
            after = 1 if error.code in (502, 504) else int(after) if after.isdecimal() else 0  # 502 and 504: a proxy
            code, detail = "", error.read().decode(errors="replace")
            try:
                problem = json.loads(detail)
                code, detail = problem["code"], problem["detail"]
            except (ValueError, TypeError, KeyError):
                pass  # of a proxy
            text = f"poold at {self.url}: {code or error.code}: {detail}"
            raise PooldError(text, code, error.code, after) from None
        except (OSError, http.client.HTTPException) as error:
            raise PooldError(f"poold at {self.url} does not answer; is it running, and POOLD_URL right? {error!r}", retry_after=1) from None


@pytest.fixture
def poold():
    return Poold(os.environ.get("POOLD_URL") or "http://127.0.0.1:8080", os.environ.get("POOLD_KEY"))
