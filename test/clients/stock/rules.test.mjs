// The rules by themselves, and every client between two instances that point at each other: one hop, then
// a wait.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocketServer } from 'ws';
import { Route, retryable } from 'chathome-examples/rules.mjs';
import { followers, senders } from './clients.mjs';

const lost = (here, owner, retryAfterMs = 150) => ({
  message: 'not here',
  extensions: { code: 'SHARD_NOT_OWNED', retryAfterMs, shardNotOwned: { instance: here, owner: owner && { instance: owner, version: '1' }, retryAfterMs } },
});

test('the route hops once, waits, and starts again at home', () => {
  const a = { id: 'a', url: 'http://a' }, b = { id: 'b', url: 'http://b/' };
  const route = new Route('http://home/');
  const step = (error) => {
    const wait = route.next(error && retryable([error]));
    return [route.url, wait > 0];
  };
  assert.deepEqual(step(lost(a, b)), ['http://b', false], 'to the owner at once');
  assert.deepEqual(step(lost(b, a)), ['http://home', true], 'not a second time');
  assert.deepEqual(step(lost(a, b)), ['http://b', false], 'after a wait again');
  assert.deepEqual(step(undefined), ['http://home', true], 'the owner did not answer');
  assert.deepEqual(step(lost(a, a)), ['http://home', true], 'its own owner, which is still loading');
  assert.deepEqual(step(lost(a, null)), ['http://home', true], 'nobody known');
  assert.equal(retryable([{ extensions: { code: 'BAD_REQUEST' } }, { message: 'none' }]), undefined);
  assert.equal(retryable(undefined), undefined);
});

test('two instances that point at each other', { concurrency: true }, async (t) => {
  const roles = [...Object.entries(senders).map(([n, c]) => [`${n} sends`, c]), ...Object.entries(followers)];
  await Promise.all(roles.map(([name, client]) =>
    t.test(name, async (t) => {
      const asked = [];
      const two = await Promise.all(['0', '1'].map((id) => quarreller(id, () => two, asked)));
      t.after(() => two.forEach(({ close }) => close()));
      const running = client(two[0].url, { room: 'r', clientId: '1', onMessage() {} });
      for (const end = Date.now() + 10_000; asked.length < 8 && Date.now() < end;) await sleep(20);
      await running.leave();
      const seen = [...asked];
      for (const one of two) one.peaceful = true;
      await Promise.race([running.answer?.catch(() => {}), sleep(500)]); // urql and Apollo finish a mutation that nobody waits for
      for (const end = Date.now() + 5000; two.some((one) => one.open()) && Date.now() < end;) await sleep(20);
      assert.ok(two.every((one) => !one.open()), 'a socket stays open although nobody subscribes');
      assert.ok(seen.length >= 8, `${seen.length} requests: it gave up`);
      for (let i = 1; i < seen.length; i += 2) {
        assert.deepEqual([seen[i - 1].at, seen[i].at], ['0', '1'], 'home, then one hop');
        if (seen[i + 1]) assert.ok(seen[i + 1].time - seen[i].time >= 148, 'the server asked for 150 ms');
      }
    })));
});

// quarreller says that the other one is the owner, over HTTP, event streams and sockets.
async function quarreller(id, both, asked) {
  const self = { id };
  const refuse = () => {
    if (self.peaceful) return { data: { sendMessage: null } };
    const other = both().find(({ id }) => id !== self.id);
    asked.push({ at: self.id, time: performance.now() });
    const instance = ({ id, url }) => ({ id, url });
    return { data: null, errors: [lost(instance(self), instance(other))] };
  };
  const server = createServer((request, response) => {
    const streamed = request.headers.accept === 'text/event-stream'; // urql names that, too, behind JSON
    request.resume().on('end', () => {
      if (streamed) {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        return response.end(`event: next\ndata: ${JSON.stringify(refuse())}\n\nevent: complete\ndata: \n\n`);
      }
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(refuse()));
    });
  });
  const sockets = new WebSocketServer({ server, handleProtocols: () => 'graphql-transport-ws' });
  sockets.on('connection', (socket) => socket.on('message', (text) => {
    const message = JSON.parse(text);
    if (message.type === 'connection_init') socket.send('{"type":"connection_ack"}');
    if (message.type !== 'subscribe') return;
    socket.send(JSON.stringify({ id: message.id, type: 'next', payload: refuse() }));
    socket.send(JSON.stringify({ id: message.id, type: 'complete' }));
  }));
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  self.url = `http://127.0.0.1:${server.address().port}`;
  self.open = () => sockets.clients.size > 0;
  self.close = () => {
    for (const socket of sockets.clients) socket.terminate();
    server.closeAllConnections();
    server.close();
  };
  return self;
}
