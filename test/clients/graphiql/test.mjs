// GraphiQL in Chromium against a running server: a query, a mutation, a subscription, an error, each as a
// person would do it. Screenshots for people to look at.
//
//   node test.mjs [URL] [FOLDER]     defaults http://127.0.0.1:8080/ and ./screenshots
//
// Exit 0 when all is well, 1 on a fault, 2 when something that it needs is missing.
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const url = process.argv[2] ?? 'http://127.0.0.1:8080/';
const shots = process.argv[3] ?? 'screenshots';
const browser = process.env.CHROMIUM ?? '/usr/bin/chromium';

if (!existsSync(browser)) {
  console.error(`graphiql: no Chromium at ${browser}; install Debian's package chromium or set CHROMIUM`);
  process.exit(2);
}
await fetch(new URL('healthz', url)).catch((e) => {
  console.error(`graphiql: no server at ${url}: ${e.cause?.message ?? e.message}`);
  process.exit(2);
});
mkdirSync(shots, { recursive: true });

const profile = mkdtempSync(join(tmpdir(), 'graphiql-'));
const context = await chromium.launchPersistentContext(profile, {
  executablePath: browser,
  headless: true,
  viewport: { width: 1400, height: 800 },
  args: [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
  ],
});

const faults = [];
const page = context.pages()[0] ?? (await context.newPage());
page.on('console', (m) => {
  if (m.type() === 'error' || /Content Security Policy|Refused to/.test(m.text())) faults.push(`console: ${m.text()}`);
});
page.on('pageerror', (e) => faults.push(`page: ${e.message}`));
page.on('request', (r) => {
  if (!r.url().startsWith(url) && !/^(data|blob):/.test(r.url())) faults.push(`asked elsewhere: ${r.url()}`);
});
const sockets = [];
page.on('websocket', (s) => sockets.push(s.url()));

// GraphiQL needs a moment to see which operation the tab holds.
const open = async (name) => {
  await page.getByRole('tab', { name }).first().click();
  await page.waitForTimeout(1000);
};
const run = () => page.locator('.graphiql-execute-button');
const answer = async () => (await page.locator('.result-window .view-lines').innerText()).replaceAll('\u00a0', ' ');

// waitFor polls for what a person would wait to see.
async function waitFor(what, seen, limit = 15_000) {
  const end = Date.now() + limit;
  for (;;) {
    if (await seen()) return console.log(`ok    ${what}`);
    if (Date.now() > end) throw new Error(`not seen within ${limit / 1000} s: ${what}\n${await answer().catch(() => '')}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
const shows = (what, ...parts) => waitFor(what, async () => {
  const text = await answer();
  return parts.every((part) => text.includes(part));
});
const shot = (name) => page.screenshot({ path: join(shots, `${name}.png`) });

let status = 0;
try {
  await page.goto(url);
  await waitFor('the page has its four example tabs', async () => (await page.getByRole('tab').count()) >= 4, 60_000);
  await waitFor('the schema is loaded', async () => (await page.locator('.graphiql-spinner').count()) === 0);

  await open('CreateRoom');
  await run().click();
  await shows('a mutation creates a room', 'CreateChatRoomSuccess', '"name": "Example"');
  await shot('create');

  await open('Follow');
  await run().click();
  await shows('a subscription says at once that it stands', '"live": true', '"endCursor"');

  const client = `browser-${Date.now()}`;
  const sent = await fetch(new URL('graphql', url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      query: 'mutation($input: SendMessageInput!) { sendMessage(input: $input) { __typename } }',
      variables: { input: { chatRoomId: '6f1d5b0e-2a4c-4c1e-9d57-3f0a8c2b7e11', user: 'bob', clientId: client, text: `from ${client}` } },
    }),
  });
  if (!(await sent.text()).includes('SendMessageSuccess')) faults.push('the message from outside was not stored');
  await shows('a message of somebody else arrives in the subscription', `from ${client}`);
  await shot('subscription');
  await run().click(); // stop

  await open('Send');
  await run().click();
  await shows('a mutation sends a message', 'SendMessageSuccess', '"user": "alice"');
  await shot('send');

  await open('Shards');
  await run().click();
  await shows('a query lists the shards', '"shards"', '"state": "OPEN"');
  await shot('shards');

  await page.locator('.graphiql-query-editor .monaco-editor').first().click();
  await page.keyboard.press('Control+A');
  await page.keyboard.type('{ nod', { delay: 50 });
  await waitFor('the editor completes names of the schema', async () =>
    (await page.locator('.suggest-widget.visible').innerText().catch(() => '')).includes('node'));
  await page.keyboard.press('Control+A');
  await page.keyboard.type('{ node(id: "nobody") { id ');
  await page.waitForTimeout(1000);
  await page.keyboard.press('Escape'); // the suggestions
  await page.keyboard.press('Control+Enter');
  await shows('an error says what is wrong', '"errors"', 'BAD_REQUEST');
  await shot('error');

  await page.locator('button[aria-label*="Documentation"], button[aria-label*="documentation"]').first().click();
  await waitFor('the documentation of the schema opens', async () => (await page.getByText('Root Types').count()) > 0);
  await shot('documentation');

  if (!sockets.some((s) => s.endsWith('/graphql'))) faults.push('the subscription did not use a WebSocket');
} catch (e) {
  faults.push(e.message);
  await shot('fault').catch(() => {});
} finally {
  await context.close();
  rmSync(profile, { recursive: true, force: true });
}
for (const f of faults) {
  console.error(`FAULT ${f}`);
  status = 1;
}
process.exit(status);
