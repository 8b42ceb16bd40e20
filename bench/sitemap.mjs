// sitemap.js: `node --expose-gc sitemap.mjs MODULES CASE PAGES.jsonl REPEATS`, a line of JSON as bench/worker.py prints it.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Readable } from "node:stream";
import { createGzip, gzipSync } from "node:zlib";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [, , modules, kind, path, repeats] = process.argv;
const require = createRequire(pathToFileURL(join(modules, "none.js")));
const { SitemapStream, streamToPromise } = require("sitemap");
const version = JSON.parse(readFileSync(join(modules, "node_modules/sitemap/package.json"), "utf8")).version;
const ZLIB_LEVEL = 6;

const items = readFileSync(path, "utf8").trim().split("\n").map((line) => {
  const page = JSON.parse(line);
  const item = { url: page.loc, lastmod: page.lastmod };
  if (page.images) item.img = page.images.map((url) => ({ url }));
  if (page.alternates) item.links = page.alternates.map(([lang, url]) => ({ lang, url }));
  if (page.videos) item.video = page.videos.map((video) => ({ ...video, publication_date: undefined }));
  if (page.title) {
    item.news = {
      publication: { name: "Example News", language: "en" },
      publication_date: page.published,
      title: page.title,
    };
  }
  return item;
});

const resident = (name) => Number(readFileSync("/proc/self/status", "utf8").match(new RegExp(`${name}:\\s+(\\d+)`))[1]) / 1024;

async function render() {
  const stream = Readable.from(items).pipe(new SitemapStream());
  if (kind.endsWith("_gzip_piped")) return streamToPromise(stream.pipe(createGzip({ level: ZLIB_LEVEL })));
  const body = await streamToPromise(stream);
  return kind.endsWith("_gzip_joined") ? gzipSync(body, { level: ZLIB_LEVEL }) : body;
}

let added = 0;
let output = null;
const times = [];
global.gc();
let before = null;
try {
  writeFileSync("/proc/self/clear_refs", "5");
  before = resident("VmRSS");
} catch {
  before = process.memoryUsage().rss / 1024 / 1024; // no Linux: the peak is counted from the start
}
for (let number = 0; number < Number(repeats); number += 1) {
  output = null;
  global.gc();
  const began = process.cpuUsage();
  output = await render();
  const spent = process.cpuUsage(began);
  times.push((spent.user + spent.system) / 1000);
  if (number === 0) added = process.platform === "linux" ? resident("VmHWM") - before : 0;
}
times.sort((a, b) => a - b);
const median = times.length % 2 ? times[(times.length - 1) / 2] : (times[times.length / 2 - 1] + times[times.length / 2]) / 2;
console.log(JSON.stringify({
  cpu_ms: Math.round(median * 100) / 100,
  peak_mib: Math.round(added * 10) / 10,
  bytes: output.length,
  version,
}));
