// Event streams as the graphql-sse protocol has them ("distinct connections mode"): raw requests and the real
// npm client graphql-sse, against a running server and against the reference server of that package.
//
//   node sse.mjs [URL]        default http://127.0.0.1:8080/graphql
//
// Exit 0 when the server passes every case, 1 when not, 2 when it cannot be reached. The reference may differ.
import { createServer } from 'node:http';
import { buildClientSchema, getIntrospectionQuery } from 'graphql';
import { createClient } from 'graphql-sse';
import { createHandler } from 'graphql-sse/lib/use/http';

const url = process.argv[2] ?? 'http://127.0.0.1:8080/graphql';

async function post(at, body, headers = {}, signal = undefined) {
  return fetch(at, {
    method: 'POST', signal,
    headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

// The reference serves the same schema, with one shard.
async function reference() {
  const answer = await (await post(url, { query: getIntrospectionQuery() }, { accept: 'application/json' })).json();
  if (!answer.data) throw new Error('the server must allow introspection');
  const schema = buildClientSchema(answer.data);
  schema.getSubscriptionType().getFields().shards.subscribe = async function* () {
    yield { shards: [{ number: 0, state: 'OPEN' }] };
    await new Promise(() => {});
  };
  const server = createServer(createHandler({ schema }));
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  return { at: `http://127.0.0.1:${server.address().port}/graphql`, close: () => { server.closeAllConnections(); server.close(); } };
}

// events reads a stream strictly until it ends or n events have come.
async function events(response, n = Infinity) {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
    throw new Error(`${response.status} ${response.headers.get('content-type')}`);
  }
  const found = [];
  let rest = '';
  const decoder = new TextDecoder('utf-8', { fatal: true });
  for await (const bytes of response.body) {
    rest += decoder.decode(bytes, { stream: true });
    for (let at; (at = rest.indexOf('\n\n')) >= 0; rest = rest.slice(at + 2)) {
      const event = {};
      for (const line of rest.slice(0, at).split('\n')) {
        if (line.startsWith(':')) continue;
        const [, name, value] = /^(event|data|id): ?(.*)$/.exec(line) ?? [];
        if (!name) throw new Error(`line ${JSON.stringify(line)}`);
        if (name in event) throw new Error(`two lines ${name} in one event`);
        event[name] = value;
      }
      if (event.event) found.push(event);
      if (found.length >= n) return found;
    }
  }
  if (rest !== '') throw new Error(`torn event ${JSON.stringify(rest)}`);
  return found;
}

const expect = (ok, what) => { if (!ok) throw new Error(what); };
const first = (list) => JSON.parse(list[0].data);
const get = (at, query, headers = {}) => fetch(`${at}?query=${encodeURIComponent(query)}`, { headers: { accept: 'text/event-stream', ...headers } });

async function refusedInStream(response) {
  const list = await events(response);
  expect(response.status === 200, `status ${response.status}`);
  expect(list.length === 2 && list[0].event === 'next' && list[1].event === 'complete', JSON.stringify(list));
  expect(first(list).errors?.length > 0 && !('data' in first(list)), list[0].data);
}

const cases = {
  'query by POST: next, then complete': async (at) => {
    const list = await events(await post(at, { query: '{__typename}' }));
    expect(list.map((e) => e.event).join() === 'next,complete', JSON.stringify(list));
    expect(first(list).data.__typename === 'Query', list[0].data);
  },
  'query by GET': async (at) => {
    const list = await events(await get(at, '{__typename}'));
    expect(list.map((e) => e.event).join() === 'next,complete', JSON.stringify(list));
  },
  'variables and operationName': async (at) => {
    const list = await events(await post(at, {
      query: 'query A { __typename } query B($n: String!) { __type(name: $n) { name } }', operationName: 'B', variables: { n: 'Query' },
    }));
    expect(first(list).data.__type.name === 'Query', list[0].data);
  },
  'complete has a data line, so that EventSource reports it': async (at) => {
    const list = await events(await post(at, { query: '{__typename}' }));
    expect('data' in list[1], 'no data line');
  },
  'a document that does not validate: 200 and errors as an event': async (at) => refusedInStream(await post(at, { query: '{nothing}' })),
  'a document that does not parse: 200 and errors as an event': async (at) => refusedInStream(await post(at, { query: '{' })),
  'variables that do not fit: 200 and errors as an event': async (at) => refusedInStream(await post(at, { query: 'query($id: ID!) { node(id: $id) { id } }' })),
  'a subscription: headers and first event within a second': async (at) => {
    const abort = new AbortController();
    const start = Date.now();
    const response = await post(at, { query: 'subscription { shards { number } }' }, {}, abort.signal);
    const [event] = await events(response, 1);
    expect(Date.now() - start < 1000, `${Date.now() - start} ms`);
    expect(JSON.parse(event.data).data.shards.length > 0, event.data);
    abort.abort();
  },
  'not cached and not buffered on the way': async (at) => {
    const response = await post(at, { query: '{__typename}' });
    await response.text();
    expect(/no-cache/.test(response.headers.get('cache-control')), response.headers.get('cache-control'));
    expect(response.headers.get('x-accel-buffering') === 'no', 'X-Accel-Buffering');
  },
  'a mutation by GET: 405 and Allow': async (at) => {
    const response = await get(at, 'mutation { __typename }');
    await response.text();
    expect(response.status === 405 && /POST/.test(response.headers.get('allow')), `status ${response.status}`);
  },
  'a subscription by GET': async (at) => {
    const [event] = await events(await get(at, 'subscription { shards { number } }'), 1);
    expect(event.event === 'next', JSON.stringify(event));
  },
  'no query: 400': async (at) => {
    const response = await post(at, {});
    await response.text();
    expect(response.status === 400, `status ${response.status}`);
  },
  'a body that is no JSON: 400': async (at) => {
    const response = await post(at, '{ "query');
    await response.text();
    expect(response.status === 400, `status ${response.status}`);
  },
  'a form: refused': async (at) => {
    const response = await post(at, 'query={__typename}', { 'content-type': 'application/x-www-form-urlencoded' });
    await response.text();
    expect(response.status >= 400 && response.status < 500, `status ${response.status}`);
  },
  'Accept with quality values': async (at) => {
    const list = await events(await post(at, { query: '{__typename}' }, { accept: 'application/json;q=0.1, text/event-stream;q=0.9' }));
    expect(list.length === 2, JSON.stringify(list));
  },
  'the client graphql-sse: a query': async (at) => {
    const client = createClient({ url: at, retryAttempts: 0 });
    const seen = [];
    await new Promise((complete, error) => client.subscribe({ query: '{__typename}' }, { next: (v) => seen.push(v), error, complete }));
    client.dispose();
    expect(seen.length === 1 && seen[0].data.__typename === 'Query', JSON.stringify(seen));
  },
  'the client graphql-sse: errors come as a result': async (at) => {
    const client = createClient({ url: at, retryAttempts: 0 });
    const seen = [];
    await new Promise((complete, error) => client.subscribe({ query: '{nothing}' }, { next: (v) => seen.push(v), error, complete }));
    client.dispose();
    expect(seen.length === 1 && seen[0].errors.length > 0, JSON.stringify(seen));
  },
  'the client graphql-sse: a subscription that is left': async (at) => {
    const client = createClient({ url: at, retryAttempts: 0 });
    await new Promise((done, failed) => {
      const leave = client.subscribe({ query: 'subscription { shards { number } }' }, {
        next: () => { leave(); done(); }, error: failed, complete: () => {},
      });
    });
    client.dispose();
  },
};

async function run(test, at) {
  const late = new Promise((_, no) => setTimeout(() => no(new Error('nothing within 5 s')), 5000).unref());
  try {
    await Promise.race([test(at), late]);
    return 'ok';
  } catch (e) {
    return `FAIL ${e.message}`.slice(0, 90);
  }
}

try {
  await fetch(url, { method: 'OPTIONS' });
} catch (e) {
  console.error(`audit: no server at ${url}: ${e.cause?.message ?? e.message}`);
  process.exit(2);
}
const other = await reference();
let failed = 0;
console.log(`${'chathome'.padEnd(10)}${'reference'.padEnd(11)}case`);
for (const [name, test] of Object.entries(cases)) {
  const [ours, theirs] = [await run(test, url), await run(test, other.at)];
  if (ours !== 'ok') failed++;
  console.log(`${ours.split(' ')[0].padEnd(10)}${theirs.split(' ')[0].padEnd(11)}${name}`);
  if (ours !== 'ok') console.log(`          chathome: ${ours}`);
  if (theirs !== 'ok') console.log(`          reference: ${theirs}`);
}
other.close();
console.log(`\n${Object.keys(cases).length - failed} of ${Object.keys(cases).length}`);
process.exit(failed === 0 ? 0 : 1);
