// The browser's own EventSource against a running server, with nothing but what a page has: it follows a room,
// its connection is cut again and again, it comes back by itself with Last-Event-ID, and sees every message
// once and in order. It also sees the end of a stream.
//
//   node test.mjs [URL]     default http://127.0.0.1:8080/; GraphiQL must be on: its page is the one that asks
//
// Exit 0 when all is well, 1 on a fault, 2 when something that it needs is missing.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import { chromium } from 'playwright-core';

const url = new URL(process.argv[2] ?? 'http://127.0.0.1:8080/');
const browser = process.env.CHROMIUM ?? '/usr/bin/chromium';
const total = 300;

if (!existsSync(browser)) {
  console.error(`eventsource: no Chromium at ${browser}; install Debian's package chromium or set CHROMIUM`);
  process.exit(2);
}
await fetch(new URL('healthz', url)).catch((e) => {
  console.error(`eventsource: no server at ${url}: ${e.cause?.message ?? e.message}`);
  process.exit(2);
});

// A way to the server that can be cut.
const links = new Set();
const proxy = createServer((from) => {
  const to = connect(Number(url.port || 80), url.hostname);
  links.add(from);
  from.on('close', () => { links.delete(from); to.destroy(); });
  to.on('close', () => from.destroy());
  from.on('error', () => {});
  to.on('error', () => {});
  from.pipe(to).pipe(from);
});
await new Promise((ready) => proxy.listen(0, '127.0.0.1', ready));
const base = `http://127.0.0.1:${proxy.address().port}/`;

async function ask(query, variables) {
  const answer = await fetch(new URL('graphql', url), {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ query, variables }),
  });
  const { data, errors } = await answer.json();
  if (errors) throw new Error(JSON.stringify(errors));
  return data;
}
const room = randomUUID();
await ask('mutation($input: CreateChatRoomInput!) { createChatRoom(input: $input) { __typename } }', { input: { id: room, name: 'EventSource' } });
const send = (n) => ask('mutation($input: SendMessageInput!) { sendMessage(input: $input) { __typename } }', {
  input: { chatRoomId: room, user: 'alice', clientId: String(n), text: `message ${n}` },
});

const profile = mkdtempSync(join(tmpdir(), 'eventsource-'));
const context = await chromium.launchPersistentContext(profile, {
  executablePath: browser, headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
let status = 0;
try {
  const page = context.pages()[0] ?? (await context.newPage());
  await page.goto(base);
  await page.evaluate((room) => {
    const query = 'subscription($room: ID!) { messages(chatRoomId: $room) { edges { node { serial } } live } }';
    const source = new EventSource(`graphql?query=${encodeURIComponent(query)}&variables=${encodeURIComponent(JSON.stringify({ room }))}`);
    globalThis.seen = { serials: [], opened: 0, cut: 0, completed: 0, ids: 0, refused: [] };
    source.onopen = () => { seen.opened++; };
    source.onerror = () => { seen.cut++; };
    source.addEventListener('next', (e) => {
      const { data, errors } = JSON.parse(e.data);
      if (errors) return seen.refused.push(e.data);
      if (e.lastEventId) seen.ids++;
      for (const { node } of data.messages.edges) seen.serials.push(Number(node.serial));
    });
    source.addEventListener('complete', () => { seen.completed++; source.close(); });
  }, room);

  // until waits for what the page has seen; an EventSource comes back three seconds after a cut.
  const until = async (done) => {
    const end = Date.now() + 15_000;
    for (;;) {
      const seen = await page.evaluate(() => globalThis.seen);
      if (done(seen) || Date.now() > end) return seen;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  let cuts = 0;
  let seen;
  for (let n = 1; n <= total; n++) {
    await send(n);
    if (n % 100 === 50) {
      cuts++;
      for (const link of links) link.resetAndDestroy();
    }
    if (n % 100 === 0) seen = await until((s) => s.serials.length >= n); // half of them came while it was away
  }
  const right = seen.serials.length === total && seen.serials.every((serial, i) => serial === i + 1);
  console.log(`${right ? 'ok   ' : 'FAULT'} ${seen.serials.length} of ${total} messages in order, over ${cuts} cuts and ${seen.opened} connections`);
  if (!right || seen.refused.length || seen.opened <= cuts || seen.ids === 0) {
    console.error(JSON.stringify(seen));
    status = 1;
  }

  const completed = await page.evaluate(() => new Promise((resolve) => {
    const source = new EventSource(`graphql?query=${encodeURIComponent('{__typename}')}`);
    source.addEventListener('complete', () => { source.close(); resolve(true); });
    setTimeout(() => resolve(false), 5000);
  }));
  console.log(`${completed ? 'ok   ' : 'FAULT'} the end of a stream is reported as the event complete`);
  if (!completed) status = 1;
} finally {
  await context.close();
  proxy.close();
  for (const link of links) link.destroy();
  rmSync(profile, { recursive: true, force: true });
}
process.exit(status);
