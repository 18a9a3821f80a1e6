# SPDX-FileCopyrightText: 2026 The caddy-moderation authors
# SPDX-License-Identifier: Apache-2.0
"""Programs in Python's standard library, and with requests where it is installed, that have a host in their code. With
the argument "untrusted" they do not know the root, and must refuse the server."""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request


def post(url, body, headers={}):
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def score(text, post=post):
    url = "https://commentanalyzer.googleapis.com/v1alpha1/comments:analyze?key=" + os.environ["PERSPECTIVE_KEY"]
    answer = post(url, {"comment": {"text": text}, "requestedAttributes": {"TOXICITY": {}}})
    return answer["attributeScores"]["TOXICITY"]["summaryScore"]["value"]


def flagged(*texts, post=post):
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    answer = post("https://api.openai.com/v1/moderations", {"input": texts}, headers)
    return [result["flagged"] for result in answer["results"]]


def check(what, holds):
    try:
        result = holds()
        print("ok: " + what if result is True else f"FAIL: {what}: got {result!r}")
    except Exception as err:
        print(f"FAIL: {what}: {err}")


def refuses(use):
    """Whether the certificate, and nothing else, keeps a program from using the server."""
    try:
        return use()
    except urllib.error.URLError as err:
        return isinstance(err.reason, ssl.SSLCertVerificationError) or err


fine, vile = os.environ["FINE"], os.environ["VILE"]
if sys.argv[1:] == ["untrusted"]:
    check("urllib refuses the server of Google's name", lambda: refuses(lambda: score(fine)))
    check("urllib refuses the server of OpenAI's name", lambda: refuses(lambda: flagged(fine)))
    sys.exit()
check("urllib scores comments", lambda: score(vile) > 0.8 and score(fine) < 0.5)
check("urllib moderates texts", lambda: flagged(fine, vile) == [False, True])
check("urllib refuses a name that the root is not for", lambda: refuses(lambda: post("https://other.example/", {})))
try:
    import requests
except ImportError:
    print("skip: requests: it is not installed")
    sys.exit()


def by_requests(url, body, headers={}):
    answer = requests.post(url, json=body, headers=headers, timeout=30)
    answer.raise_for_status()
    return answer.json()


check("requests scores comments", lambda: score(vile, by_requests) > 0.8 and score(fine, by_requests) < 0.5)
check("requests moderates texts", lambda: flagged(fine, vile, post=by_requests) == [False, True])
