// Builds the page into ../dist, each file compressed: that is what the server embeds and sends. The same lock
// file gives the same bytes: esbuild is pinned, and fflate compresses alike on every machine (zlib does not).
import { build } from 'esbuild';
import { gzipSync } from 'fflate';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, '..', 'dist');

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  write: false,
  metafile: true,
  target: ['es2022'],
  legalComments: 'none', // LICENSES.txt has them
  define: { 'process.env.NODE_ENV': '"production"' },
  loader: { '.ttf': 'file', '.svg': 'dataurl' },
  outdir: 'out',
};

const results = await Promise.all([
  build({
    ...common,
    entryPoints: { main: 'src/main.jsx' },
    format: 'esm',
    jsx: 'automatic',
    assetNames: '[name]',
  }),
  build({
    ...common,
    entryPoints: {
      'editor.worker': 'monaco-editor/esm/vs/editor/editor.worker.js',
      'json.worker': 'monaco-editor/esm/vs/language/json/json.worker.js',
      'graphql.worker': 'monaco-graphql/esm/graphql.worker.js',
    },
    format: 'iife',
  }),
]);

rmSync(dist, { recursive: true, force: true });
mkdirSync(dist, { recursive: true });

const files = new Map([['index.html', readFileSync(join(here, 'src', 'index.html'))]]);
const packages = new Set();
for (const result of results) {
  for (const file of result.outputFiles) {
    files.set(file.path.slice(file.path.lastIndexOf('/') + 1), file.contents);
  }
  for (const output of Object.values(result.metafile.outputs)) {
    for (const input of Object.keys(output.inputs)) {
      const found = input.match(/^(?:.*\/)?node_modules\/((?:@[^/]+\/)?[^/]+)\//);
      if (found) packages.add(input.slice(0, found.index + found[0].length));
    }
  }
}
files.set('LICENSES.txt', licenses([...packages].sort()));

let plain = 0;
let small = 0;
for (const [name, contents] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) {
  const zipped = gzipSync(contents, { level: 9, mtime: 0 });
  writeFileSync(join(dist, `${name}.gz`), zipped);
  plain += contents.length;
  small += zipped.length;
}
console.log(`${files.size} files, ${plain} bytes, ${small} compressed`);

// licenses gathers what the authors of everything in the bundle ask to be passed on.
function licenses(folders) {
  let text = 'GraphiQL and what it is built of. This page is made of the packages below.\n';
  for (const folder of folders) {
    const { name, version, license } = JSON.parse(readFileSync(join(here, folder, 'package.json'), 'utf8'));
    text += `\n${'-'.repeat(80)}\n${name} ${version} (${license ?? 'see below'})\n\n`;
    const file = readdirSync(join(here, folder)).sort().find((f) => /^licen[cs]e/i.test(f));
    if (file) text += readFileSync(join(here, folder, file), 'utf8').replaceAll('\r\n', '\n').trim() + '\n';
  }
  return new TextEncoder().encode(text);
}
