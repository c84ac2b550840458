// Bundles src/ into one self-contained page, dist/index.html: scripts and styles are inlined, nothing is fetched.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const here = new URL(".", import.meta.url);
const at = (path) => new URL(path, here).pathname;

const common = { bundle: true, minify: true, write: false, charset: "utf8", legalComments: "none", target: "es2022" };
const [script, style] = await Promise.all([
  build({ ...common, entryPoints: [at("src/main.ts")], format: "iife" }),
  build({ ...common, entryPoints: [at("src/styles/page.css")] }),
]);
// "</script" inside the bundle would end the element early, and "<!--" would change how it is read.
const inlineScript = script.outputFiles[0].text.replace(/<\/script/gi, "<\\/script").replace(/<!--/g, "<\\!--");
const inlineStyle = style.outputFiles[0].text;
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
// Only the page's own script and style run; data comes from the page's server; everything else is forbidden. The server
// sends the same policy as a header (src/serve/page.cpp).
const policy = [
  "default-src 'none'",
  `script-src ${hash(inlineScript)}`,
  `style-src ${hash(inlineStyle)}`,
  "connect-src 'self'",
  "img-src 'self' data: blob:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const page = (await readFile(at("src/index.html"), "utf8"))
  .replace("/*policy*/", () => policy)
  .replace("/*style*/", () => inlineStyle)
  .replace("/*script*/", () => inlineScript);
await mkdir(at("dist"), { recursive: true });
await writeFile(at("dist/index.html.part"), page);
await rename(at("dist/index.html.part"), at("dist/index.html"));
const kilobytes = (bytes) => `${(bytes / 1000).toFixed(0)} kB`;
console.log(
  `web/dist/index.html: ${kilobytes(page.length)}, ${kilobytes(gzipSync(page, { level: 9 }).length)} compressed`,
);
