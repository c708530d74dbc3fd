// What becomes of a subscription over graphql-ws when its connection is cut, when it has hardly begun,
// and when all clients come back at once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'graphql-ws';
import WebSocket from 'ws';
import { ask } from 'chathome-examples/fetch.mjs';
import { MESSAGES, sockets } from 'chathome-examples/graphql-ws.mjs';
import { createRoom, input, send, SEND } from '../cluster.mjs';
import { socketOptions } from './clients.mjs';
import { inOrder, seen } from './seen.mjs';

const atOnce = { ...socketOptions, retryWait: () => sleep(Math.random() * 20) };

/** @param {import('../cluster.mjs').Cluster} cluster */
export function cuts(cluster) {
  const [a] = cluster.instances;
  const sendTo = (room, n) => ask(a.url, { query: SEND, variables: { input: input(room, n) } });
  const sendMany = async (room, from, to) => { for (let n = from; n <= to; n++) await sendTo(room, n); };
  const follow = (t, client, room, list) => {
    const leave = client.subscribe({ query: MESSAGES, variables: { room } }, list);
    t.after(leave); // else a failed test leaves a client behind that comes back for ever
    return leave;
  };

  test('graphql-ws by itself repeats everything after a cut', async (t) => {
    const room = await createRoom(a.url);
    await sendMany(room, 1, 100);
    const client = createClient({ url: a.url.replace('http', 'ws') + '/graphql', shouldRetry: () => true, ...atOnce });
    const list = seen();
    const leave = follow(t, client, room, list);
    await list.until(100);
    a.proxy.cut();
    await list.until(200);
    leave();
    assert.deepEqual(list.serials.slice(100), list.serials.slice(0, 100));
  });

  test('with the helper nothing is repeated after a cut, and nothing is missing', async (t) => {
    const room = await createRoom(a.url);
    await sendMany(room, 1, 100);
    const list = seen();
    const leave = follow(t, sockets(a.url, atOnce), room, list);
    await list.until(100);
    a.proxy.cut();
    await sendMany(room, 101, 110);
    await list.until(110);
    await sleep(100); // for repeats
    leave();
    inOrder(list, 110);
  });

  test('a handshake that takes 5 s', { concurrency: true }, async (t) => {
    const cases = {
      'the answer to the upgrade': [5000], // the server gives up on the client meanwhile (4408), and it comes back
      'connection_ack': [0, 5000],
    };
    const own = await cluster.way(a); // a proxy of its own, so that nothing else is slow
    t.after(() => own.close());
    await Promise.all(Object.entries(cases).map(([name, delays], i) => t.test(name, async (t) => {
      const way = i === 0 ? own : await cluster.way(a);
      const room = await createRoom(a.url);
      await sendMany(room, 1, 10);
      way.delays = delays;
      const list = seen();
      const leave = follow(t, sockets(way.url, atOnce), room, list);
      await sendMany(room, 11, 20);
      await list.until(20, 20_000);
      leave();
      way.close();
      inOrder(list, 20);
    })));
  });

  test('cut every 0 to 300 ms while somebody writes', async (t) => {
    const room = await createRoom(a.url);
    const list = seen();
    const leave = follow(t, sockets(a.url, atOnce), room, list);
    let writing = true;
    const cutting = (async () => {
      let n = 0;
      for (; writing; n++) {
        await sleep(Math.random() * 300);
        a.proxy.cut();
      }
      return n;
    })();
    for (let n = 1; n <= 600; n++) {
      await sendTo(room, n);
      await sleep(5);
    }
    writing = false;
    const times = await cutting;
    await list.until(600);
    leave();
    inOrder(list, 600);
    assert.ok(times > 5, `${times} cuts`);
    await sleep(100); // the last cut has reached everybody before the next test asks
  });

  test('subscribe and send at the same moment, 500 times', async () => {
    const room = await createRoom(a.url);
    const client = sockets(a.url, { ...socketOptions, lazyCloseTimeout: 5000 });
    const LIVE = `subscription ($room: ID!, $after: String, $last: Int) {
      messages(chatRoomId: $room, after: $after, last: $last) { edges { node { clientId } } endCursor } }`;
    const END = 'query ($room: ID!) { chatRoom(id: $room) { messages(last: 1) { pageInfo { endCursor } } } }';
    for (let n = 1; n <= 500; n++) {
      // By turns: behind the cursor that a query has just returned; or from now on, where "now" is the first event.
      const behind = n % 2 === 0 && (await send(a.url, END, { room })).data.chatRoom.messages.pageInfo.endCursor;
      const start = behind ? { after: behind } : { last: 0 };
      let stands, arrived;
      const standing = new Promise((resolve) => { stands = resolve; });
      const arriving = new Promise((resolve) => { arrived = resolve; });
      const leave = client.subscribe({ query: LIVE, variables: { room, ...start } }, {
        next({ data }) {
          stands();
          if (data.messages.edges.some(({ node }) => node.clientId === String(n))) arrived(true);
        },
        error: arrived, complete: arrived,
      });
      if (!behind) await standing;
      const { data } = await send(a.url, SEND, { input: input(room, n) });
      assert.equal(data?.sendMessage.duplicate, false);
      assert.equal(await Promise.race([arriving, sleep(10_000, 'not within 10 s')]), true, `${n}: ${JSON.stringify(start)}`);
      leave();
    }
  });
}

/** @param {import('../cluster.mjs').Cluster} cluster */
export function herd(cluster) {
  test('100 subscribers come back at once behind the death of the owner, with 200 messages to catch up on', async (t) => {
    const [other, owner] = cluster.instances;
    const room = await createRoom(owner.url);
    const way = await cluster.way(owner); // the address that they know; it leads to the dead until all is written
    const herd = Array.from({ length: 100 }, () => {
      const list = seen();
      return { list, leave: sockets(way.url, socketOptions).subscribe({ query: MESSAGES, variables: { room } }, list) };
    });
    t.after(() => {
      herd.forEach(({ leave }) => leave());
      way.close();
    });
    const write = (n) => ask(other.url, { query: SEND, variables: { input: input(room, n) } }, { attempts: 100 });
    for (let n = 1; n <= 20; n++) await write(n);
    await Promise.all(herd.map(({ list }) => list.until(20)));

    await cluster.end(owner, 'SIGKILL');
    for (let n = 21; n <= 220; n++) await write(n);
    for (const { list } of herd) inOrder(list, 20);
    way.target = other.proxy.target;
    const start = performance.now();
    await Promise.all(herd.map(({ list }) => list.until(220, 30_000)));
    t.diagnostic(`everybody has everything after ${Math.round(performance.now() - start)} ms, waits of clients included`);
    for (const { list } of herd) inOrder(list, 220);
    await cluster.launch(owner);
    await cluster.settled();
  });
}
