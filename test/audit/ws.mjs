// WebSockets as the protocol graphql-transport-ws has them: frames by hand and the real npm client graphql-ws,
// against a running server and against the reference server of that package.
//
//   node ws.mjs [URL]         default http://127.0.0.1:8080/graphql; $PROGRAM, default bin/chathome, is started
//                             for the cases in which a server stops
//
// Exit 0 when the server passes every case, 1 when not, 2 when it cannot be reached. The reference may differ; a
// dash where it has no such thing.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildClientSchema, getIntrospectionQuery } from 'graphql';
import { createClient } from 'graphql-ws';
import { useServer } from 'graphql-ws/use/ws';
import WebSocket, { WebSocketServer } from 'ws';
import { BINARY, CLOSE, open, PING, PONG, TEXT } from './raw/socket.mjs';

const url = process.argv[2] ?? 'http://127.0.0.1:8080/graphql';
const program = process.env.PROGRAM ?? join(import.meta.dirname, '../../bin/chathome');
const LIVE = 'subscription { shards { number } }';

async function ask(query, variables) {
  const response = await fetch(url, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ query, variables }),
  });
  return response.json();
}

// The reference serves the same schema, with one shard.
async function reference() {
  const { data } = await ask(getIntrospectionQuery());
  if (!data) throw new Error('the server must allow introspection');
  const schema = buildClientSchema(data);
  const shards = schema.getSubscriptionType().getFields().shards;
  shards.subscribe = () => ({
    [Symbol.asyncIterator]() { return this; },
    told: false,
    async next() {
      if (this.told) return new Promise((resolve) => { this.stop = () => resolve({ done: true }); });
      this.told = true;
      return { value: { shards: [{ number: 0, state: 'OPEN' }] }, done: false };
    },
    async return() { this.stop?.(); return { done: true }; },
  });
  const server = createServer();
  const sockets = new WebSocketServer({ server, path: '/graphql', maxPayload: 64 << 10 });
  const { dispose } = useServer({ schema }, sockets);
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  return {
    at: `http://127.0.0.1:${server.address().port}/graphql`,
    async stop() { await dispose(); server.closeAllConnections(); server.close(); },
  };
}

async function another() {
  const child = spawn(program, ['serve', '--listen=127.0.0.1:0', '--data-dir=:memory:'], { stdio: ['ignore', 'pipe', 'ignore'] });
  for await (const chunk of child.stdout) {
    const base = String(chunk).trim().replace(/^.*?: /, '').replace(/\/$/, '');
    for (let i = 0; i < 200 && !(await fetch(`${base}/readyz`).catch(() => ({}))).ok; i++) await sleep(100);
    return { at: `${base}/graphql`, async stop() { child.kill('SIGTERM'); await new Promise((gone) => child.once('exit', gone)); } };
  }
  throw new Error(`${program} did not start`);
}

const expect = (ok, what) => { if (!ok) throw new Error(typeof what === 'string' ? what : JSON.stringify(what)); };
const init = { type: 'connection_init' };
const subscribe = (id, query, more = {}) => ({ id, type: 'subscribe', payload: { query, ...more } });

// acked is a socket that may subscribe.
async function acked(at, options) {
  const socket = await open(at, options);
  socket.send(init);
  const answer = await socket.next();
  expect(answer?.type === 'connection_ack', answer);
  return socket;
}

// closes: after these messages the server closes with the code.
const closes = (code, ...messages) => async (at) => {
  const socket = await acked(at);
  for (const m of messages) Buffer.isBuffer(m) ? socket.frame(BINARY, m) : socket.send(m);
  await closed(socket, code);
};

async function closed(socket, ...codes) {
  for (let said; (said = await socket.next());) {
    if (!('closed' in said)) continue;
    socket.end();
    expect(codes.includes(said.closed), said);
    return said;
  }
  throw new Error('not closed');
}

// answers: exactly these messages come, and then nothing; the socket lives on.
async function answers(socket, ...types) {
  for (const type of types) {
    const said = await socket.next();
    expect(said?.type === type, said ?? `no ${type}`);
  }
  socket.send({ type: 'ping' });
  const said = await socket.next();
  expect(said?.type === 'pong', said ?? 'no pong');
  socket.end();
}

const client = (at, options = {}) => createClient({ url: at.replace(/^http/, 'ws'), webSocketImpl: WebSocket, retryAttempts: 0, ...options });
const run = (c, payload) => new Promise((resolve, reject) => {
  const seen = [];
  c.subscribe(payload, { next: (value) => seen.push(value), error: reject, complete: () => resolve(seen) });
});

const cases = {
  'handshake: the subprotocol is agreed on': async (at) => {
    const socket = await open(at);
    socket.end();
    expect(socket.protocol === 'graphql-transport-ws', socket.protocol ?? 'none');
  },
  'handshake: offered behind the legacy one, it is taken': async (at) => {
    const socket = await open(at, { protocols: ['graphql-ws', 'graphql-transport-ws'] });
    socket.end();
    expect(socket.protocol === 'graphql-transport-ws', socket.protocol ?? 'none');
  },
  'handshake: only the legacy graphql-ws: 4406': async (at) => { await closed(await open(at, { protocols: ['graphql-ws'] }), 4406); },
  'handshake: no subprotocol: 4406': async (at) => { await closed(await open(at, { protocols: [] }), 4406); },
  'handshake: a page of another origin: 403': async (at) => {
    const said = await open(at, { headers: { origin: 'https://evil.example' } }).then((s) => s.end(), (e) => e.status);
    expect(said === 403, `${said}`);
  },
  'handshake: a page of its own origin': async (at) => (await acked(at, { headers: { origin: new URL(at).origin } })).end(),
  'init: connection_ack': async (at) => (await acked(at)).end(),
  'init: with a payload': async (at) => {
    const socket = await open(at);
    socket.send({ ...init, payload: { token: 'x' } });
    expect((await socket.next())?.type === 'connection_ack', 'no ack');
    socket.end();
  },
  'init: none within 3 s: 4408': async (at) => {
    const start = Date.now();
    await closed(await open(at), 4408);
    const took = Date.now() - start;
    expect(took > 2500, `after ${took} ms`);
  },
  'init: twice: 4429': closes(4429, init),
  'init: twice in one breath: 4429': async (at) => {
    const socket = await open(at);
    socket.send(init);
    socket.send(init);
    await closed(socket, 4429);
  },
  'ping before connection_init is answered': async (at) => { await answers(await open(at)); },
  'ping: its payload comes back': async (at) => {
    const socket = await acked(at);
    socket.send({ type: 'ping', payload: { n: 1 } });
    const said = await socket.next();
    socket.end();
    expect(said?.type === 'pong' && said.payload?.n === 1, said ?? 'nothing');
  },
  'pong that nobody asked for is ignored': async (at) => {
    const socket = await acked(at);
    socket.send({ type: 'pong' });
    await answers(socket);
  },
  "ping of WebSocket itself is answered": async (at) => {
    const socket = await acked(at);
    socket.frame(PING, 'hello');
    const said = await socket.next();
    socket.end();
    expect(said?.opcode === PONG && said.payload === 'hello', said ?? 'nothing');
  },
  'subscribe before connection_ack: 4401': async (at) => {
    const socket = await open(at);
    socket.send(subscribe('a', '{__typename}'));
    await closed(socket, 4401);
  },
  'a query: next, complete': async (at) => {
    const socket = await acked(at);
    socket.send(subscribe('a', '{__typename}'));
    const said = await socket.next();
    expect(said?.id === 'a' && said.payload.data.__typename === 'Query', said ?? 'nothing');
    await answers(socket, 'complete');
  },
  'a mutation: next, complete': async (at) => {
    const socket = await acked(at);
    socket.send(subscribe('a', 'mutation {__typename}'));
    await answers(socket, 'next', 'complete');
  },
  'operationName and variables': async (at) => {
    const socket = await acked(at);
    socket.send(subscribe('a', 'query A {__typename} query B($n: String!) { __type(name: $n) { name } }',
      { operationName: 'B', variables: { n: 'Query' } }));
    const said = await socket.next();
    socket.end();
    expect(said?.payload.data?.__type?.name === 'Query', said ?? 'nothing');
  },
  'operationName, variables and extensions may be null': async (at) => {
    const socket = await acked(at);
    socket.send(subscribe('a', '{__typename}', { operationName: null, variables: null, extensions: null }));
    await answers(socket, 'next', 'complete');
  },
  'two operations at once, each under its id': async (at) => {
    const socket = await acked(at);
    socket.send(subscribe('a', LIVE));
    socket.send(subscribe('b', LIVE));
    const ids = [(await socket.next())?.id, (await socket.next())?.id].sort();
    socket.end();
    expect(ids.join() === 'a,b', ids);
  },
  'a document that does not parse: error, no complete': async (at) => {
    const socket = await acked(at);
    socket.send(subscribe('a', '{'));
    await answers(socket, 'error');
  },
  'a document that does not validate: error, no complete': async (at) => {
    const socket = await acked(at);
    socket.send(subscribe('a', '{nothing}'));
    const said = await socket.next();
    expect(said?.type === 'error' && Array.isArray(said.payload) && said.payload[0].message, said ?? 'nothing');
    await answers(socket);
  },
  'variables that do not fit: errors, and the socket lives on': async (at) => {
    const socket = await acked(at);
    socket.send(subscribe('a', 'query($id: ID!) { node(id: $id) { id } }'));
    const said = await socket.next();
    expect(said?.type === 'error' || said?.payload?.errors, said ?? 'nothing');
    socket.send({ type: 'ping' });
    for (let next; (next = await socket.next())?.type !== 'pong';) expect(next?.type === 'complete', next ?? 'no pong');
    socket.end();
  },
  'an id is free again after an error': async (at) => {
    const socket = await acked(at);
    socket.send(subscribe('a', '{nothing}'));
    expect((await socket.next())?.type === 'error', 'no error');
    socket.send(subscribe('a', '{__typename}'));
    await answers(socket, 'next', 'complete');
  },
  'an id that is in use: 4409, and the reason names it': async (at) => {
    const socket = await acked(at);
    socket.send(subscribe('a', LIVE));
    socket.send(subscribe('a', LIVE));
    const { reason } = await closed(socket, 4409);
    expect(reason === 'Subscriber for a already exists', reason);
  },
  "the client's complete: nothing comes back, and the id is free": async (at) => {
    const socket = await acked(at);
    socket.send(subscribe('a', LIVE));
    expect((await socket.next())?.type === 'next', 'no event');
    socket.send({ id: 'a', type: 'complete' });
    socket.send({ type: 'ping' });
    expect((await socket.next())?.type === 'pong', 'no pong');
    socket.send(subscribe('a', '{__typename}'));
    await answers(socket, 'next', 'complete');
  },
  "the client's complete stops the work: later events are not sent": async (at) => {
    const room = randomUUID();
    const write = (n) => ask('mutation($i: SendMessageInput!) { sendMessage(input: $i) { __typename } }',
      { i: { chatRoomId: room, user: 'u', clientId: `${n}`, text: 'x' } });
    await ask('mutation($i: CreateChatRoomInput!) { createChatRoom(input: $i) { __typename } }', { i: { id: room, name: 'audit' } });
    const socket = await acked(at);
    socket.send(subscribe('a', 'subscription($r: ID!) { messages(chatRoomId: $r) { edges { node { serial } } } }', { variables: { r: room } }));
    expect((await socket.next())?.payload?.data, 'no first event');
    await write(1);
    expect((await socket.next())?.payload?.data.messages.edges.length === 1, 'no event');
    socket.send({ id: 'a', type: 'complete' });
    await write(2);
    await sleep(200);
    await answers(socket);
  },
  'complete for an id that nobody has is ignored': async (at) => {
    const socket = await acked(at);
    socket.send({ id: 'nobody', type: 'complete' });
    await answers(socket);
  },
  'text that is no JSON: 4400': closes(4400, '{ "type"'),
  'JSON that is no object: 4400': closes(4400, '[1]'),
  'null: 4400': closes(4400, 'null'),
  'no type: 4400': closes(4400, {}),
  'a type that there is not: 4400': closes(4400, { type: 'start', id: 'a' }),
  'a type that only servers send: 4400': closes(4400, { type: 'next', id: 'a', payload: { data: {} } }),
  'subscribe without an id: 4400': closes(4400, { type: 'subscribe', payload: { query: '{__typename}' } }),
  'subscribe with an empty id: 4400': closes(4400, subscribe('', '{__typename}')),
  'subscribe with a number as id: 4400': closes(4400, subscribe(1, '{__typename}')),
  'subscribe without a payload: 4400': closes(4400, { type: 'subscribe', id: 'a' }),
  'subscribe without a query: 4400': closes(4400, { type: 'subscribe', id: 'a', payload: {} }),
  'subscribe with variables that are a list: 4400': closes(4400, subscribe('a', '{__typename}', { variables: [1] })),
  'complete without an id: 4400': closes(4400, { type: 'complete' }),
  'connection_init with a payload that is no object: 4400': async (at) => {
    const socket = await open(at);
    socket.send({ ...init, payload: 'x' });
    await closed(socket, 4400);
  },
  'a binary message: 4400': closes(4400, Buffer.from('{"type":"ping"}')),
  'half of a surrogate pair: 4400': closes(4400, '{"id":"a","type":"subscribe","payload":{"query":"{__typename}","variables":{"x":"\\ud800"}}}'),
  'bytes that are no UTF-8: 4400 or 1007': async (at) => {
    const socket = await acked(at);
    socket.frame(TEXT, Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]));
    await closed(socket, 4400, 1007);
  },
  'a message in several frames': async (at) => {
    const socket = await acked(at);
    const text = JSON.stringify(subscribe('a', '{__typename}'));
    socket.frame(TEXT, text.slice(0, 10), { fin: false });
    socket.frame(0, text.slice(10, 20), { fin: false });
    socket.frame(PONG, '');
    socket.frame(0, text.slice(20));
    await answers(socket, 'next', 'complete');
  },
  'a message of more than 64 KiB: 1009': closes(1009, subscribe('a', `{__typename} #${'x'.repeat(70 << 10)}`)),
  'more than 64 KiB in small frames: 1009': async (at) => {
    const socket = await acked(at);
    socket.frame(TEXT, '{', { fin: false });
    for (let i = 0; i < 80; i++) socket.frame(0, ' '.repeat(1000), { fin: false });
    await closed(socket, 1009);
  },
  'a frame without a mask: the end, with 1002 or without a word': async (at) => { // RFC 6455 section 5.1: MAY
    const socket = await acked(at);
    socket.frame(TEXT, '{"type":"ping"}', { masked: false });
    await closed(socket, 1002, 1006);
  },
  'a compressed frame that was not agreed on: 1002': async (at) => {
    const socket = await acked(at);
    socket.frame(TEXT, '{"type":"ping"}', { reserved: 0x40 });
    await closed(socket, 1002);
  },
  "the client's close is answered": async (at) => {
    const socket = await acked(at);
    socket.frame(CLOSE, Buffer.from([0x03, 0xe8]));
    await closed(socket, 1000);
  },
  'more than 100 operations at once: 4429': async (at) => {
    const socket = await acked(at);
    for (let i = 0; i <= 100; i++) socket.send(subscribe(`${i}`, LIVE));
    await closed(socket, 4429);
  },
  'graphql-ws: a query, a mutation': async (at) => {
    const c = client(at);
    const [[query], [mutation]] = [await run(c, { query: '{__typename}' }), await run(c, { query: 'mutation {__typename}' })];
    c.dispose();
    expect(query.data.__typename === 'Query' && mutation.data.__typename === 'Mutation', [query, mutation]);
  },
  'graphql-ws: a refused document comes as its list of errors': async (at) => {
    const c = client(at);
    const fault = await run(c, { query: '{nothing}' }).catch((e) => e);
    c.dispose();
    expect(Array.isArray(fault) && fault[0].message, fault);
  },
  'graphql-ws: a subscription that is left': async (at) => {
    const c = client(at);
    for await (const { data } of c.iterate({ query: LIVE })) {
      expect(data.shards.length > 0, data);
      break;
    }
    c.dispose();
  },
  'graphql-ws: 20 subscriptions on one socket': async (at) => {
    let opened = 0;
    const c = client(at, { on: { opened: () => opened++ } });
    const events = await Promise.all(Array.from({ length: 20 }, async () => {
      for await (const { data } of c.iterate({ query: LIVE })) return data;
    }));
    c.dispose();
    expect(opened === 1 && events.every((data) => data.shards), `${opened} sockets`);
  },
  'graphql-ws: connectionParams and keepAlive': async (at) => {
    let pongs = 0;
    const c = client(at, { connectionParams: { token: 'x' }, keepAlive: 50, lazyCloseTimeout: 400, on: { pong: (received) => { if (received) pongs++; } } });
    await run(c, { query: '{__typename}' });
    await sleep(300);
    c.dispose();
    expect(pongs >= 2, `${pongs} pongs`);
  },
  'graphql-ws: gives up on a code that is final': async (at) => {
    let opened = 0;
    const c = client(at, { retryAttempts: 5, retryWait: async () => {}, generateID: () => 'same', on: { opened: () => opened++ } });
    const faults = await Promise.allSettled([run(c, { query: LIVE }), run(c, { query: LIVE })]);
    c.dispose();
    expect(faults.every(({ reason }) => reason?.code === 4409) && opened === 1, `${opened} sockets, ${faults[0].reason?.code}`);
  },
};

// These stop a server, so each has one of its own.
const stops = {
  'a server that stops: 1001': async ({ at, stop }) => {
    const socket = await acked(at);
    const stopped = stop();
    await closed(socket, 1001);
    await stopped;
  },
  'graphql-ws: comes back after a server has stopped': async ({ at, stop }) => {
    let connecting = 0, events = 0;
    const c = client(at, { retryAttempts: 5, shouldRetry: () => true, retryWait: () => sleep(50), on: { connecting: () => connecting++ } });
    const leave = c.subscribe({ query: LIVE }, { next: () => events++, error() {}, complete() {} });
    for (let i = 0; i < 100 && !events; i++) await sleep(20);
    await stop();
    for (let i = 0; i < 100 && connecting < 2; i++) await sleep(20);
    leave(); // and no dispose(): it rejects while the client waits to come back
    expect(events >= 1 && connecting >= 2, `${events} events, ${connecting} attempts`);
  },
};
const ownOnly = ['handshake: a page of another origin: 403', 'more than 100 operations at once: 4429',
  "the client's complete stops the work: later events are not sent"];

async function outcome(test, target) {
  const late = new Promise((_, no) => setTimeout(() => no(new Error('nothing within 10 s')), 10_000).unref());
  try {
    await Promise.race([test(target), late]);
    return 'ok';
  } catch (e) {
    return `FAIL ${e.message}`.slice(0, 120);
  }
}

let failed = 0;
function row(name, ours, theirs) {
  if (ours !== 'ok') failed++;
  console.log(`${ours.split(' ')[0].padEnd(10)}${theirs.split(' ')[0].padEnd(11)}${name}`);
  if (ours !== 'ok') console.log(`          chathome: ${ours}`);
  if (theirs.startsWith('FAIL')) console.log(`          reference: ${theirs}`);
}

try {
  await fetch(url, { method: 'OPTIONS' });
} catch (e) {
  console.error(`audit: no server at ${url}: ${e.cause?.message ?? e.message}`);
  process.exit(2);
}
const other = await reference();
console.error = () => {}; // the reference complains there about what is done to it
console.log(`${'chathome'.padEnd(10)}${'reference'.padEnd(11)}case`);
for (const [name, test] of Object.entries(cases)) {
  const theirs = ownOnly.includes(name) ? '-' : outcome(test, other.at);
  row(name, await outcome(test, url), await theirs);
}
for (const [name, test] of Object.entries(stops)) {
  row(name, await outcome(test, await another()), await outcome(test, await reference()));
}
await other.stop();
const all = Object.keys(cases).length + Object.keys(stops).length;
console.log(`\n${all - failed} of ${all}`);
process.exit(failed === 0 ? 0 : 1);
