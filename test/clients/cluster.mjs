// Instances of chathome on one broker, each behind a proxy under whose address it is known, so that every way to
// it can be cut.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { proxy } from './proxy.mjs';

const program = process.env.PROGRAM ?? join(import.meta.dirname, '../../bin/chathome');

/** One cluster; stop() ends everything that it started. */
export class Cluster {
  #data = mkdtempSync(join(tmpdir(), 'chathome-clients-'));
  #children = [];
  #broker;
  /** @type {Array<{url: string, proxy: Awaited<ReturnType<typeof proxy>>, name: string, child?: any}>} */
  instances = [];

  /** Starts a broker and instances, and waits until all shards are served, by all of them. */
  static async start(names = ['a', 'b'], { origins = [], flags = [] } = {}) {
    const cluster = new Cluster();
    process.once('exit', () => cluster.#children.forEach((child) => child.kill('SIGKILL'))); // a test that fell over
    cluster.flags = ['--session-timeout=3s', '--rebalance-timeout=3s', ...flags];
    if (origins.length) cluster.flags.push(`--allowed-origins=${origins}`);
    try {
      cluster.#broker = await cluster.#spawn('broker', '--listen=127.0.0.1:0', '--data-dir=:memory:');
      for (const name of names) {
        const instance = { name, proxy: await proxy() };
        instance.url = instance.proxy.url;
        cluster.instances.push(instance);
        await cluster.launch(instance);
      }
      await cluster.settled();
    } catch (e) {
      await cluster.stop();
      throw e;
    }
    return cluster;
  }

  /** Starts an instance, again if it was stopped, with the same data. */
  async launch(instance) {
    const { child, at } = await this.#spawn('serve', '--listen=127.0.0.1:0', `--brokers=${this.#broker.at}`,
      `--advertised-url=${instance.url}`, `--instance-id=${instance.name}`, `--data-dir=${join(this.#data, instance.name)}`, ...this.flags);
    instance.child = child;
    instance.proxy.target = Number(new URL(at).port);
  }

  /** Another way to an instance, for one test alone. */
  async way(instance) {
    const way = await proxy();
    way.target = instance.proxy.target;
    return way;
  }

  /** Ends an instance: SIGTERM is a planned stop, SIGKILL a death. */
  async end(instance, signal) {
    const { child } = instance;
    const gone = new Promise((done) => child.once('exit', done));
    child.kill(signal);
    await gone;
    instance.child = undefined;
    instance.proxy.cut();
  }

  /** Waits until every shard is open on one of the instances that run, and each of these has some. */
  async settled() {
    for (let i = 0; i < 600; i++, await sleep(100)) {
      const open = new Map();
      const running = this.instances.filter(({ child }) => child);
      for (const { url } of running) {
        const answer = await send(url, '{ shards { number state } }').catch(() => ({}));
        const own = answer.data?.shards?.filter(({ state }) => state === 'OPEN') ?? [];
        for (const { number } of own) open.set(number, url);
      }
      if (open.size === 12 && new Set(open.values()).size === running.length) return;
    }
    throw new Error('the cluster did not settle within a minute');
  }

  async stop() {
    for (const child of this.#children.reverse()) {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM');
        await Promise.race([new Promise((done) => child.once('exit', done)), sleep(5000, undefined, { ref: false })]);
        child.kill('SIGKILL');
      }
    }
    for (const { proxy } of this.instances) proxy.close();
    rmSync(this.#data, { recursive: true, force: true });
  }

  // A child prints its address first.
  async #spawn(...args) {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'] });
    this.#children.push(child);
    for await (const chunk of child.stdout) {
      return { child, at: String(chunk).trim().replace(/^.*?: /, '').replace(/\/$/, '') };
    }
    throw new Error(`chathome ${args[0]} did not start`);
  }
}

/** One request, as it is: no retry. */
export async function send(url, query, variables) {
  const response = await fetch(`${url}/graphql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables }),
  });
  return response.json();
}

/** A new room of a shard that the instance at url serves. */
export async function createRoom(url) {
  const { data, errors } = await send(url, `mutation { createChatRoom(input: {name: "clients"}) {
    ... on CreateChatRoomSuccess { chatRoom { id } } ... on UserError { reason } } }`);
  const id = data?.createChatRoom?.chatRoom?.id;
  if (!id) throw new Error(`no room: ${JSON.stringify(errors ?? data)}`);
  return id;
}

export const SEND = `mutation Send($input: SendMessageInput!) {
  sendMessage(input: $input) {
    __typename
    ... on SendMessageSuccess { duplicate message { id clientId user serial text } }
    ... on MessageMutation { reason }
    ... on UnknownChatRoom { reason }
    ... on InvalidInput { reason }
  }
}`;

/** The input of sendMessage. */
export const input = (chatRoomId, clientId, user = 'alice', text = `message ${clientId}`) =>
  ({ chatRoomId, user, clientId: String(clientId), text });
