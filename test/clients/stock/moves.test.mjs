// All clients at once through everything: they follow a room and send to it, by an instance that does not serve
// it, while connections are cut, the owner is killed, and the next owner is stopped.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRoom, send } from '../cluster.mjs';
import { followers, senders } from './clients.mjs';
import { inOrder, seen } from './seen.mjs';

const total = 240;

/** @param {import('../cluster.mjs').Cluster} cluster */
export function moves(cluster) {
  test('every client sends and follows while servers are cut off, killed and stopped', async (t) => {
    const [home, owner] = cluster.instances;
    const room = await createRoom(owner.url);
    const lists = Object.entries(followers).map(([name, follow]) => {
      const list = seen();
      const { leave } = follow(home.url, { room, onMessage: list.add, onEnd: list.end });
      t.after(leave);
      return [name, list];
    });
    const names = Object.keys(senders);
    const stored = [];
    for (let n = 1; n <= total; n++) {
      if (n % 40 === 0) for (const { proxy } of cluster.instances) proxy.cut();
      if (n === total / 3) await cluster.end(owner, 'SIGKILL');
      if (n === (2 * total) / 3) await cluster.end(await ownerOf(room, cluster, home), 'SIGTERM');
      const { answer, leave } = senders[names[n % names.length]](home.url, { room, clientId: String(n) });
      const { message, ...other } = await answer;
      assert.ok(message, JSON.stringify(other));
      stored.push(Number(message.serial));
      leave();
    }
    assert.deepEqual(stored, Array.from({ length: total }, (_, i) => i + 1), 'one message for each that was sent');
    for (const [name, list] of lists) {
      await t.test(`${name} has seen every message once and in order`, async () => {
        await list.until(total, 30_000);
        inOrder(list, total);
      });
    }
  });
}

// Whoever serves the room now; if that is home, another one that runs.
async function ownerOf(room, cluster, home) {
  const others = cluster.instances.filter((instance) => instance.child && instance !== home);
  for (const instance of others) {
    const { data } = await send(instance.url, 'query ($room: ID!) { chatRoom(id: $room) { messages(first: 0) { edges { cursor } } } }', { room });
    if (data?.chatRoom?.messages) return instance;
  }
  return others[0];
}
