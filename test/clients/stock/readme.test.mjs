// What the README quotes of the helpers is what they say.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '../../..');
const lines = (text) => text.trim().split('\n').map((line) => line.trim()).join('\n');

test('the README quotes the helpers word for word', () => {
  const section = readFileSync(join(root, 'README.md'), 'utf8').split('\n## ').find((part) => part.startsWith('For clients'));
  let file, quotes = 0;
  for (const [, link, code] of section.matchAll(/\]\((examples\/clients\/[\w-]+\.mjs)\)|```js\n(.*?)```/gs)) {
    if (link) file = link;
    else {
      quotes++;
      assert.ok(lines(readFileSync(join(root, file), 'utf8')).includes(lines(code)), `not in ${file}:\n${code}`);
    }
  }
  assert.ok(quotes >= 4, `${quotes} quotes`);
});
