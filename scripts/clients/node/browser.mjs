// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

// A real browser: it opens the app's form page, types, clicks, uploads files and goes back, by HTTP/1.1, 2 and 3. It is
// the Chromium that CHROME_PATH names, else the one that the npm package @sparticuz/chromium brings along, else one that is
// installed.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import puppeteer from "puppeteer-core";
import { check, fine, folder, received, sha256, site, sitePin, siteTLS, skip, unseen, vile } from "./harness.mjs";

async function chromium() {
  if (process.env.CHROME_PATH) return process.env.CHROME_PATH;
  if (process.platform === "linux" && process.arch === "x64") {
    // The package unpacks into the temporary folder; and it unpacks its own libraries, too, and lets the browser find
    // them, when it believes that it is where it was made for.
    process.env.TMPDIR = folder;
    process.env.AWS_LAMBDA_JS_RUNTIME = "nodejs22.x";
    const { default: packaged } = await import("@sparticuz/chromium");
    packaged.setGraphicsMode = false;
    const path = await packaged.executablePath();
    // Its fonts.conf looks for the fonts in /tmp, and a browser without any font hangs.
    process.env.FONTCONFIG_FILE = join(folder, "fonts.conf");
    writeFileSync(
      process.env.FONTCONFIG_FILE,
      `<fontconfig><dir>${join(folder, "fonts")}</dir><cachedir>${join(folder, "fonts-cache")}</cachedir></fontconfig>\n`,
    );
    return path;
  }
  const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
  const places = (process.env.PATH ?? "").split(delimiter);
  return places.flatMap((place) => names.map((name) => join(place, name))).find(existsSync);
}

const executablePath = await chromium();
if (executablePath === undefined) {
  skip("all", "there is no Chromium; CHROME_PATH can name one");
  process.exit();
}

/** Starts a browser that trusts the site's certificate; undefined when this machine cannot run it. */
const launch = (...more) =>
  puppeteer.launch({
    executablePath,
    headless: "shell",
    // Its sandbox is for pages of strangers; it cannot be had by root nor in many containers.
    args: ["--no-sandbox", "--no-zygote", "--no-proxy-server", "--disable-dev-shm-usage", `--ignore-certificate-errors-spki-list=${sitePin}`, ...more],
  });

let browser;
try {
  browser = await launch();
} catch (err) {
  if (!/error while loading shared libraries|GLIBC/.test(err.message)) throw err;
  skip("all", `${executablePath} cannot run here: ${err.message}`);
  process.exit();
}

let page = await browser.newPage();
const visible = () => page.evaluate(() => document.body.innerText);

/** Does what leads to another page and returns the answer to that. */
async function leads(run) {
  const [answer] = await Promise.all([page.waitForNavigation(), run()]);
  return answer;
}

/** Types a comment into the form and sends it. */
async function comment(text, at = site) {
  await page.goto(at);
  await page.type("#comments textarea", text);
  return await leads(() => page.click("#comments button"));
}

/** Uploads a file with a caption by the form of that id. */
async function upload(form, file, caption, at = site) {
  await page.goto(at);
  const input = await page.$(`${form} input[type=file]`);
  await input.uploadFile(file);
  await page.type(`${form} input[name=caption]`, caption);
  return await leads(() => page.click(`${form} button`));
}

/** Throws unless the page is the refusal to a person: it can be read and does not repeat the text. */
async function refused(answer) {
  assert.equal(answer.status(), 422, await visible());
  assert.match(answer.headers()["content-type"], /^text\/html/);
  const text = await visible();
  assert.ok(text.length > 20, `the page says ${text}`);
  assert.ok(!text.includes("worthless"), `the page says ${text}`);
  assert.notEqual(await page.title(), "");
}

/** How many whole requests the app received at a path. */
const arrived = async (path) => (await received(path)).filter((seen) => seen.whole).length;

await check("a fine comment is thanked for", async () => {
  const answer = await comment(fine);
  assert.equal(answer.status(), 200);
  assert.match(await visible(), /Thank you/);
  assert.ok((await visible()).includes(fine));
});

await check("a vile comment is refused with a page", async () => {
  const before = await arrived("/comment");
  await refused(await comment(vile));
  assert.equal(await arrived("/comment"), before, "the comment reached the app");
});

await check("going back from the refusal leads to the form, which takes a better comment", async () => {
  await refused(await comment(vile));
  await page.goBack();
  assert.equal(await page.title(), "Recipes");
  await page.$eval("#comments textarea", (area) => (area.value = ""));
  await page.type("#comments textarea", fine);
  const answer = await leads(() => page.click("#comments button"));
  assert.equal(answer.status(), 200);
});

const file = (name, size) => {
  const data = randomBytes(size);
  const path = join(folder, name);
  writeFileSync(path, data);
  return { path, name, sha256: sha256(data) };
};
const photo = file("harbour.jpg", 400_000);
const large = file("film.mp4", 8_000_000);

/** Throws unless the last upload brought the file and the caption. */
async function brought(sent, caption) {
  const seen = (await received("/upload", { ended: true })).at(-1);
  assert.deepEqual(
    Object.fromEntries(seen.parts.map((part) => [part.name, part.filename ? `${part.filename} ${part.sha256}` : part.text])),
    { photo: `${sent.name} ${sent.sha256}`, caption },
  );
}

for (const [form, where] of [
  ["#photos", "behind"],
  ["#letters", "before"],
]) {
  for (const sent of [photo, large]) {
    await check(`a caption ${where} ${sent.name} and the file arrive byte for byte`, async () => {
      const answer = await upload(form, sent.path, fine);
      assert.equal(answer.status(), 200);
      await brought(sent, fine);
    });
    await check(`a vile caption ${where} ${sent.name} is refused with a page`, async () => {
      const before = await arrived("/upload");
      await refused(await upload(form, sent.path, vile));
      assert.equal(await arrived("/upload"), before, "the upload reached the app");
    });
  }
}

/** Posts JSON from within the page, as scripts of pages do. */
const post = (path, text) =>
  page.evaluate(
    async (path, text) => {
      const answer = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ comment: text }),
      });
      return { status: answer.status, text: await answer.text() };
    },
    path,
    text,
  );

await check("a page's script reads the refusal as JSON", async () => {
  await page.goto(site);
  const answer = await post("/echo/browser-vile", vile);
  assert.equal(answer.status, 422);
  assert.equal(JSON.parse(answer.text).code, "content_rejected");
  await unseen("/echo/browser-vile");
});

await check("a page's WebSocket echoes", async () => {
  await page.goto(site);
  const echo = await page.evaluate(
    (text) =>
      new Promise((resolve, reject) => {
        const socket = new WebSocket(`ws://${location.host}/websocket`);
        socket.onopen = () => socket.send(text);
        socket.onmessage = (event) => resolve(event.data);
        socket.onerror = () => reject(new Error("the WebSocket failed"));
      }),
    fine,
  );
  assert.equal(echo, fine);
});

await check("a page's script reads a judged story while it is told", async () => {
  await page.goto(site);
  const chunks = await page.evaluate(async () => {
    const answer = await fetch("/judged/story/fine");
    let chunks = 0;
    for (const reader = answer.body.getReader(); !(await reader.read()).done; ) chunks++;
    return chunks;
  });
  assert.ok(chunks > 1, `the story came in ${chunks} chunks`);
});

/** Comments, uploads and posts by a version of HTTP over TLS. */
async function over(protocol) {
  const used = () => page.evaluate(() => performance.getEntriesByType("navigation")[0].nextHopProtocol);
  const path = `/echo/browser-${protocol}`;
  await check(`${protocol}: fine comments, uploads and posts arrive`, async () => {
    assert.equal((await comment(fine, siteTLS)).status(), 200);
    assert.equal(await used(), protocol);
    assert.equal((await upload("#photos", large.path, fine, siteTLS)).status(), 200);
    assert.equal(await used(), protocol);
    await brought(large, fine);
    await page.goto(siteTLS);
    assert.equal((await post(path, fine)).status, 200);
  });
  for (const [what, refuse] of [
    ["a vile comment", () => comment(vile, siteTLS)],
    ["a vile caption behind a film", () => upload("#photos", large.path, vile, siteTLS)],
    ["a vile caption before a film", () => upload("#letters", large.path, vile, siteTLS)],
  ]) {
    await check(`${protocol}: ${what} is refused with a page`, async () => {
      const before = (await arrived("/comment")) + (await arrived("/upload"));
      await refused(await refuse());
      assert.equal((await arrived("/comment")) + (await arrived("/upload")), before, "it reached the app");
    });
  }
  await check(`${protocol}: a page's script reads the refusal as JSON`, async () => {
    await page.goto(siteTLS);
    assert.equal((await post(`${path}-vile`, vile)).status, 422);
    await unseen(`${path}-vile`);
  });
}

await over("h2");
await browser.close();

browser = await launch(`--origin-to-force-quic-on=${new URL(siteTLS).host}`);
page = await browser.newPage();
await over("h3");
await browser.close();
