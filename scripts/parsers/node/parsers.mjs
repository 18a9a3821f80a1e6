// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// An app that answers with what it understood of each request: node parsers.mjs express 3000. Each of the parsers is set up
// as its documentation does it.
//
// The answer is {"texts": [...], "files": [...], "status": "..."}: all strings that an app would be handed as text, the names
// of fields and files among them; the names of the fields that hold a file, whose content is nobody's text; and the
// X-Moderation-Status that came with the request.

import { isUtf8 } from "node:buffer";
import http from "node:http";

const [, , name, port] = process.argv;

// leaves adds the strings of a value and the names of its members to texts.
function leaves(value, texts, depth = 0) {
  if (depth > 200 || value == null) return;
  if (typeof value === "string") texts.push(value);
  else if (Buffer.isBuffer(value) || typeof value !== "object") return;
  else if (Array.isArray(value)) for (const v of value) leaves(v, texts, depth + 1);
  else for (const [k, v] of Object.entries(value)) texts.push(k), leaves(v, texts, depth + 1);
}

function answer(req, res, understood, files = []) {
  const texts = [];
  leaves(understood, texts);
  res.statusCode = 200;
  res.setHeader("Content-Type", "application/json");
  res.end(JSON.stringify({ texts, files, status: req.headers["x-moderation-status"] ?? "" }));
}

// failed is the answer of an app whose parser threw.
function failed(req, res, error) {
  if (res.headersSent) return;
  res.statusCode = 400;
  res.setHeader("Content-Type", "application/json");
  res.end(JSON.stringify({ texts: [], files: [], status: req.headers["x-moderation-status"] ?? "", error: String(error) }));
}

async function whole(req) {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  return Buffer.concat(chunks);
}

// byHand is what an app without a framework makes of a body: JSON whatever the type says, text where it says so or says nothing.
function byHand(req, body) {
  const text = body.toString();
  const found = [];
  try {
    found.push(JSON.parse(text));
  } catch {}
  const type = req.headers["content-type"] ?? "";
  if (/^text\//i.test(type) || (type === "" && isUtf8(body))) found.push(text);
  return found;
}

// plain serves a function of a request that returns [what was understood, names of files].
function plain(read) {
  http
    .createServer((req, res) => read(req).then(([understood, files]) => answer(req, res, understood, files), (error) => failed(req, res, error)))
    .listen(port, "127.0.0.1");
}

const parsers = {
  async express() {
    const { default: express } = await import("express");
    const app = express();
    app.use(express.json(), express.urlencoded({ extended: true }), express.text());
    app.use((req, res) => answer(req, res, req.body));
    app.use((error, req, res, next) => failed(req, res, error));
    app.listen(port, "127.0.0.1");
  },

  async multer() {
    const { default: express } = await import("express");
    const { default: multer } = await import("multer");
    const app = express();
    app.use(multer().any());
    app.use((req, res) => {
      const files = req.files ?? [];
      answer(req, res, [{ ...req.body }, files.map((f) => [f.fieldname, f.originalname])], files.map((f) => f.fieldname));
    });
    app.use((error, req, res, next) => failed(req, res, error));
    app.listen(port, "127.0.0.1");
  },

  async busboy() {
    const { default: busboy } = await import("busboy");
    const { Readable } = await import("node:stream");
    plain(async (req) => {
      const body = await whole(req);
      const found = byHand(req, body);
      const files = [];
      // An app may use a field when it comes, so those before an error count.
      await new Promise((resolve) => {
        try {
          const parser = busboy({ headers: req.headers });
          parser.on("field", (name, value) => found.push(name, value));
          parser.on("file", (name, stream, info) => {
            files.push(name);
            found.push(name, info.filename);
            stream.on("error", () => {}).resume();
          });
          parser.on("close", resolve).on("error", resolve);
          Readable.from([body]).pipe(parser);
        } catch {
          resolve();
        }
      });
      return [found, files];
    });
  },

  async formidable() {
    const { default: formidable } = await import("formidable");
    const { Writable } = await import("node:stream");
    const discard = () => new Writable({ write: (chunk, encoding, done) => done() });
    plain(async (req) => {
      const [fields, files] = await formidable({ fileWriteStreamHandler: discard, allowEmptyFiles: true, minFileSize: 0 }).parse(req);
      const named = Object.entries(files).map(([name, list]) => [name, list.map((f) => f.originalFilename)]);
      return [[fields, named], Object.keys(files)];
    });
  },

  async multiparty() {
    const { default: multiparty } = await import("multiparty");
    plain(
      (req) =>
        new Promise((resolve, reject) => {
          const found = [];
          const files = [];
          const form = new multiparty.Form();
          form.on("field", (name, value) => found.push(name, value));
          form.on("part", (part) => {
            files.push(part.name);
            found.push(part.name, part.filename);
            part.on("error", () => {}).resume();
          });
          form.on("close", () => resolve([found, files])).on("error", reject);
          form.parse(req);
        }),
    );
  },

  // What Remix, SvelteKit, Hono and others do: Node's own Request.
  async fetch() {
    plain(async (req) => {
      const body = await whole(req);
      const found = byHand(req, body);
      const files = [];
      try {
        const type = req.headers["content-type"];
        const form = await new Response(body, { headers: type === undefined ? {} : { "content-type": type } }).formData();
        for (const [name, value] of form) {
          found.push(name);
          if (typeof value === "string") found.push(value);
          else files.push(name), found.push(value.name);
        }
      } catch {}
      return [found, files];
    });
  },

  async fastify() {
    const { default: fastify } = await import("fastify");
    const app = fastify();
    await app.register((await import("@fastify/formbody")).default);
    await app.register((await import("@fastify/multipart")).default);
    app.all("/*", async (req, reply) => {
      const understood = [req.body];
      const files = [];
      if (req.isMultipart()) {
        for await (const part of req.parts()) {
          understood.push(part.fieldname);
          if (part.type === "field") {
            understood.push(part.value);
            continue;
          }
          files.push(part.fieldname);
          understood.push(part.filename);
          await part.toBuffer();
        }
      }
      reply.hijack();
      answer(req.raw, reply.raw, understood, files);
    });
    await app.listen({ port: Number(port), host: "127.0.0.1" });
  },

  async koa() {
    const { default: Koa } = await import("koa");
    const { koaBody } = await import("koa-body");
    const { Writable } = await import("node:stream");
    const discard = () => new Writable({ write: (chunk, encoding, done) => done() });
    const app = new Koa();
    app.silent = true;
    app.use(koaBody({ multipart: true, formidable: { fileWriteStreamHandler: discard, allowEmptyFiles: true, minFileSize: 0 } }));
    app.use((ctx) => {
      const files = Object.entries(ctx.request.files ?? {});
      const names = files.map(([name, list]) => [name, [list].flat().map((f) => f.originalFilename)]);
      ctx.respond = false;
      answer(ctx.req, ctx.res, [ctx.request.body, names], files.map(([name]) => name));
    });
    app.listen(port, "127.0.0.1");
  },

  async hapi() {
    const { default: Hapi } = await import("@hapi/hapi");
    const server = Hapi.server({ port: Number(port), host: "127.0.0.1", debug: false });
    const handler = (request, h) => {
      const files = [];
      // A file is an object of its name, its headers and its content.
      const isFile = (v) => v !== null && typeof v === "object" && "headers" in v && "payload" in v;
      const understood = !/^multipart\//i.test(request.mime ?? "")
        ? request.payload
        : Object.entries(request.payload ?? {}).map(([name, values]) => [
            name,
            [values].flat().map((v) => (isFile(v) ? (files.push(name), v.filename) : v)),
          ]);
      answer(request.raw.req, request.raw.res, understood, files);
      return h.abandon;
    };
    server.route({
      method: ["POST", "PUT", "PATCH", "DELETE"],
      path: "/{path*}",
      options: { payload: { multipart: { output: "annotated" } }, handler },
    });
    await server.start();
  },
};

process.on("uncaughtException", (error) => console.error(`${name}: ${error.stack ?? error}`));
process.on("unhandledRejection", (error) => console.error(`${name}: ${error?.stack ?? error}`));
await parsers[name]();
