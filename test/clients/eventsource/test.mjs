// The browser's own EventSource with examples/clients/eventsource.mjs, in Chromium, on a page of another origin: it
// follows a room while its connections are cut and the owner of the shard is stopped and comes back, and sees every
// message once and in order. It also sees the end of a stream.
//
//   node test.mjs           needs $PROGRAM, or bin/chathome at the root
//
// Exit 0 when all is well, 1 on a fault, 2 when something that it needs is missing.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { Cluster, createRoom, input, send, SEND } from '../cluster.mjs';

const examples = join(import.meta.dirname, '../../../examples/clients');
const browser = process.env.CHROMIUM ?? '/usr/bin/chromium';
const total = 300;

if (!existsSync(browser)) {
  console.error(`eventsource: no Chromium at ${browser}; install Debian's package chromium or set CHROMIUM`);
  process.exit(2);
}

// The page of a front end: it loads the helpers as they are.
const site = createServer((request, response) => {
  const module = /^\/(\w+\.mjs)$/.exec(request.url)?.[1];
  response.writeHead(200, { 'content-type': module ? 'text/javascript' : 'text/html' });
  response.end(module ? readFileSync(join(examples, module)) : '<!doctype html><title>EventSource</title>');
});
await new Promise((ready) => site.listen(0, '127.0.0.1', ready));
const origin = `http://127.0.0.1:${site.address().port}`;

let status = 0;
const check = (ok, what) => {
  console.log(`${ok ? 'ok   ' : 'FAULT'} ${what}`);
  if (!ok) status = 1;
};
const profile = mkdtempSync(join(tmpdir(), 'eventsource-'));
let context, cluster;
try {
  cluster = await Cluster.start(['a', 'b'], { origins: [origin] });
  const [other, owner] = cluster.instances;
  const room = await createRoom(owner.url);
  context = await chromium.launchPersistentContext(profile, {
    executablePath: browser, headless: true,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  const page = context.pages()[0] ?? (await context.newPage());
  await page.goto(origin);
  await page.evaluate(async ({ homes, room }) => {
    const { follow } = await import('/eventsource.mjs');
    globalThis.seen = homes.map((home) => {
      const list = [];
      follow(home, room, { onMessage: ({ serial }) => list.push(Number(serial)), onError: (e) => list.push(JSON.stringify(e)) });
      return list;
    });
  }, { homes: [owner.url, other.url], room });

  // until waits until everybody has n messages; an EventSource comes back three seconds after a cut.
  const until = async (n) => {
    for (const end = Date.now() + 20_000; ;) {
      const seen = await page.evaluate(() => globalThis.seen);
      if (seen.every((list) => list.length >= n) || Date.now() > end) return seen;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  let seen;
  for (let n = 1; n <= total; n++) {
    if (n === 220) await cluster.end(owner, 'SIGTERM'); // says SHARD_NOT_OWNED, and where to go
    if (n === 260) {
      await cluster.launch(owner);
      await cluster.settled();
    }
    await write(room, n);
    if (n === 50 || n === 150) for (const { proxy } of cluster.instances) proxy.cut();
    if (n % 100 === 0) seen = await until(n); // half of them came while it was away
  }
  for (const [i, from] of ['the owner', 'another instance'].entries()) {
    const right = seen[i].length === total && seen[i].every((serial, at) => serial === at + 1);
    check(right, `home is ${from}: ${seen[i].length} of ${total} messages, once and in order`);
    if (!right) console.error(seen[i].join());
  }

  check(await page.evaluate((home) => new Promise((resolve) => {
    const source = new EventSource(`${home}/graphql?query=${encodeURIComponent('{__typename}')}`);
    source.addEventListener('complete', () => { source.close(); resolve(true); });
    setTimeout(() => resolve(false), 5000);
  }), other.url), 'the end of a stream is reported as the event complete');
} catch (e) {
  console.error(e);
  status = 1;
} finally {
  await context?.close();
  await cluster?.stop();
  site.close();
  rmSync(profile, { recursive: true, force: true });
}
process.exit(status);

// write sends a message to whichever instance takes it.
async function write(room, n) {
  for (let i = 0; i < 200; i++) {
    for (const { url, child } of cluster.instances) {
      const answer = child && await send(url, SEND, { input: input(room, n) }).catch(() => null);
      if (answer?.data?.sendMessage?.message) return;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`message ${n} was not taken`);
}
