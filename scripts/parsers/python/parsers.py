# SPDX-FileCopyrightText: 2026 The caddy-moderation authors
# SPDX-License-Identifier: Apache-2.0
"""An app that answers with what it understood of each request: python3 parsers.py flask 3000.

Each of the frameworks is used as its documentation does it. The answer is as in ../node/parsers.mjs.
"""

import json
import sys
import xml.etree.ElementTree as ElementTree


def leaves(value, texts):
    """Adds the strings of a value and the names of its members to texts."""
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        for name, member in value.items():
            texts.append(str(name))
            leaves(member, texts)
    elif isinstance(value, (list, tuple)):
        for member in value:
            leaves(member, texts)
    elif isinstance(value, (bytes, bytearray)):
        # A field of bytes: an app that wants text decodes it.
        texts.append(bytes(value).decode("utf-8", "replace"))


def answer(understood, files, status):
    texts = []
    try:
        leaves(understood, texts)
    except RecursionError:
        pass
    return json.dumps({"texts": texts, "files": files, "status": status or ""}).encode()


def by_hand(content_type, body):
    """What an app without a parser for the type makes of a body: JSON whatever the type says, text and XML where it says so."""
    found = []
    kind = (content_type or "").lower()
    try:
        found.append(json.loads(body))
    except (ValueError, RecursionError):
        pass
    if kind.startswith("text/"):
        found.append(body.decode("utf-8", "replace"))
    if kind == "":
        try:
            found.append(body.decode("utf-8"))
        except UnicodeDecodeError:
            pass
    if "xml" in kind:
        try:
            for element in ElementTree.fromstring(body).iter():
                found.append([element.tag, element.text, element.tail, dict(element.attrib)])
        except Exception:  # Whatever is wrong with it, the app has nothing.
            pass
    return found


def gunicorn(app, port):
    from gunicorn.app.base import BaseApplication

    class Server(BaseApplication):
        def load_config(self):
            for option, value in {
                "bind": f"127.0.0.1:{port}",
                "worker_class": "gthread",
                "threads": 8,
                "keepalive": 60,
                "loglevel": "critical",
            }.items():
                self.cfg.set(option, value)

        def load(self):
            return app

    sys.argv = sys.argv[:1]
    Server().run()


def flask(port):
    from flask import Flask, Response, request

    app = Flask("parsers")

    @app.route("/", defaults={"path": ""}, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    @app.route("/<path:path>", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    def read(path):
        body = request.get_data(cache=True)
        form = list(request.form.items(multi=True))
        files = list(request.files.items(multi=True))
        understood = [by_hand(request.headers.get("Content-Type"), body), form, [[name, f.filename] for name, f in files]]
        understood.append(request.get_json(silent=True))
        return Response(answer(understood, [name for name, _ in files], request.headers.get("X-Moderation-Status")), mimetype="application/json")

    gunicorn(app, port)


def django(port):
    from django.conf import settings

    settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF="urls", SECRET_KEY="x", LOGGING_CONFIG=None, FILE_UPLOAD_HANDLERS=["django.core.files.uploadhandler.MemoryFileUploadHandler"])
    import types

    import django as package
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import re_path

    def read(request):
        body = request.body
        form = [[name, values] for name, values in request.POST.lists()]
        files = [(name, f) for name, values in request.FILES.lists() for f in values]
        understood = [by_hand(request.headers.get("Content-Type"), body), form, [[name, f.name] for name, f in files]]
        return HttpResponse(answer(understood, [name for name, _ in files], request.headers.get("X-Moderation-Status")), content_type="application/json")

    urls = types.ModuleType("urls")
    urls.urlpatterns = [re_path("", read)]
    sys.modules["urls"] = urls
    package.setup()
    gunicorn(get_wsgi_application(), port)


def bottle(port):
    import bottle as package

    app = package.Bottle()

    @app.route("/", method=["GET", "POST", "PUT", "PATCH", "DELETE"])
    @app.route("/<path:path>", method=["GET", "POST", "PUT", "PATCH", "DELETE"])
    def read(path=""):
        request = package.request
        form = list(request.forms.decode().allitems()) if request.forms else []
        files = list(request.files.allitems())
        request.body.seek(0)
        understood = [by_hand(request.headers.get("Content-Type"), request.body.read()), form, [[name, f.raw_filename] for name, f in files]]
        package.response.content_type = "application/json"
        return answer(understood, [name for name, _ in files], request.headers.get("X-Moderation-Status"))

    gunicorn(app, port)


def aiohttp(port):
    from aiohttp import web

    async def read(request):
        kind = request.headers.get("Content-Type", "")
        understood, files = [], []
        if not kind.lower().startswith("multipart/"):
            understood.append(by_hand(kind, await request.read()))
            if kind.lower().startswith("text/"):
                understood.append(await request.text())
            try:
                understood.append(await request.json())
            except (ValueError, LookupError, RecursionError):
                pass
        for name, value in (await request.post()).items():
            understood.append(name)
            if isinstance(value, web.FileField):
                files.append(name)
                understood.append(value.filename)
            else:
                understood.append(value)
        return web.Response(body=answer(understood, files, request.headers.get("X-Moderation-Status")), content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", read)
    web.run_app(app, host="127.0.0.1", port=int(port), print=None, access_log=None)


def starlette(port):
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    async def read(request):
        understood, files = [by_hand(request.headers.get("Content-Type"), await request.body())], []
        try:
            for name, value in (await request.form()).multi_items():
                understood.append(name)
                if isinstance(value, str):
                    understood.append(value)
                else:
                    files.append(name)
                    understood.append(value.filename)
        except Exception:  # What is no form is JSON or text to this app.
            pass
        return Response(answer(understood, files, request.headers.get("X-Moderation-Status")), media_type="application/json")

    app = Starlette(routes=[Route("/{path:path}", read, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])])
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="critical", access_log=False, timeout_keep_alive=60)


def tornado(port):
    import asyncio
    import logging

    from tornado import web

    logging.disable(logging.CRITICAL)

    class Read(web.RequestHandler):
        def read(self, *args):
            request = self.request
            files = [(name, f) for name, values in request.files.items() for f in values]
            understood = [by_hand(request.headers.get("Content-Type"), request.body), request.body_arguments, [[name, f.filename] for name, f in files]]
            self.set_header("Content-Type", "application/json")
            self.finish(answer(understood, [name for name, _ in files], request.headers.get("X-Moderation-Status")))

        get = post = put = patch = delete = read

    async def serve():
        web.Application([(".*", Read)]).listen(int(port), "127.0.0.1")
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    parser, port = sys.argv[1:3]
    globals()[parser](port)
