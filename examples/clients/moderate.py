#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The caddy-moderation authors
# SPDX-License-Identifier: Apache-2.0
"""Moderates texts. It needs Python 3.9 or newer, and nothing else.

    export MODERATION_URL=http://localhost:8080 MODERATION_KEY=mod_sk_...
    python3 moderate.py moderate "You are a wonderful person."
    python3 moderate.py correct "Nice try." TOXICITY 0.1
    python3 moderate.py usage
"""
import http.client
import itertools
import json
import os
import random
import sys
import time
import urllib.error
import urllib.request
import uuid


class ModerationError(Exception):
    """There is no answer, or it is an error. `id` finds the request in the operator's log."""

    def __init__(self, status, code, detail, id="", retry_after=None):
        mark = f" (id for support: {id})" if id else ""
        super().__init__(f"{status or 'no answer'} {code}: {detail}{mark}")
        self.status, self.code, self.id, self.retry_after = status, code, id, retry_after

    def passes(self):
        """Whether the same request may succeed later, without anybody doing anything."""
        return self.status in (0, 408, 429, 502, 503, 504) and self.code != "tier_not_configured"


class Moderation:
    def __init__(self, url, key, timeout=5.0, patience=30.0):
        self.url, self.key = url.rstrip("/"), key
        self.timeout = timeout  # seconds for one attempt
        self.patience = patience  # seconds for all attempts, and the pauses between them

    def moderate(self, text, themes=()):
        return self._call("POST", "/v1/moderate/text", {"content": text, "themes": list(themes)})

    def correct(self, text, attribute, score):
        # The token is kept with the correction. It tells a repeated request, which is stored twice, from a second one.
        self._call("POST", "/v1alpha1/comments:suggestscore", {
            "comment": {"text": text},
            "attributeScores": {attribute: {"summaryScore": {"value": score}}},
            "clientToken": str(uuid.uuid4()),
        })

    def usage(self):
        return self._call("GET", "/v1/usage")

    def _call(self, method, path, body=None):
        deadline = time.monotonic() + self.patience
        for attempt in itertools.count():
            try:
                return self._attempt(method, path, body)
            except ModerationError as error:
                pause = error.retry_after
                if pause is None:  # 0.25 to 0.5 s, then twice as much each time, up to 8 s
                    pause = min(8, 0.5 * 2**attempt) * random.uniform(0.5, 1)
                if not error.passes() or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)

    def _attempt(self, method, path, body):
        request = urllib.request.Request(self.url + path, method=method, headers={
            "Authorization": "Bearer " + self.key, "Content-Type": "application/json"})
        if body is not None:
            request.data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                answer = response.read()
        except urllib.error.HTTPError as response:
            with response:
                raise error_of(response, response.read()) from None
        except (OSError, http.client.HTTPException) as error:  # no connection, no answer in time, or one that breaks off
            raise ModerationError(0, "unreachable", str(error)) from None
        try:
            return json.loads(answer)
        except ValueError:
            raise error_of(response, answer) from None


def error_of(response, answer):
    """The error that an answer describes: as a problem, in Google's format, or, from a proxy, in no format at all."""
    try:
        body = json.loads(answer)
        inner = body.get("error", {})
        code = body.get("code") or inner["status"]
        detail = body.get("detail") or inner["message"]
        detail = "; ".join(e["pointer"] + ": " + e["detail"] for e in body.get("errors", [])) or detail
    except (AttributeError, KeyError, TypeError, ValueError):
        code, detail = "unknown", "the answer is not one of the service"
    retry_after = response.headers.get("Retry-After", "")
    return ModerationError(response.status, code, detail, response.headers.get("X-Request-Id", ""),
                           int(retry_after) if retry_after.isdecimal() else None)


def main(arguments):
    service = Moderation(os.environ.get("MODERATION_URL", "http://localhost:8080"), os.environ["MODERATION_KEY"],
                         float(os.environ.get("MODERATION_TIMEOUT", 5)), float(os.environ.get("MODERATION_PATIENCE", 30)))
    try:
        if arguments[:1] == ["moderate"] and len(arguments) == 2:
            answer = service.moderate(arguments[1])
            result = answer["result"]
            flagged = ", ".join(name for name, c in result["categories"].items() if c["flagged"]) or "nothing flagged"
            # What to do is your decision. This is what most sites do:
            action = {"approve": "publish it", "review": "hold it for a person", "reject": "refuse it"}
            print(f"{action[result['recommendation']]}: {flagged} ({answer['id']})")
        elif arguments[:1] == ["correct"] and len(arguments) == 4:
            service.correct(arguments[1], arguments[2], float(arguments[3]))
            print("the correction is stored")
        elif arguments == ["usage"]:
            period = service.usage()["current_period"]
            limit = period["requests_limit"] or "any number"  # 0 is unlimited
            print(f"{period['requests_made']} requests made of {limit} until {period['end_date']}")
        else:
            sys.exit(__doc__)
    except ModerationError as error:
        # Without a verdict you must decide, too. Holding the text costs time; publishing it costs more.
        sys.exit(f"no verdict, hold it for a person: {error}" if arguments[0] == "moderate" else f"failed: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
