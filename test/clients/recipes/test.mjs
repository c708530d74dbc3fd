// The README's recipes, word for word, against a cluster of three servers of which one is killed with -9 and
// one is stopped while they work.
//
//   node test.mjs      needs $PROGRAM, or bin/chathome at the root
//
// Exit 0 when every message was stored once and followed once and in order, 1 when not.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gql } from '@apollo/client';
import WebSocket from 'ws';

const here = import.meta.dirname;
const program = process.env.PROGRAM ?? join(here, '../../../bin/chathome');
const readme = readFileSync(join(here, '../../../README.md'), 'utf8');

// The recipes become modules beside this one, where their imports are found.
const modules = mkdtempSync(join(here, 'from-readme-'));
const data = mkdtempSync(join(tmpdir(), 'chathome-recipes-'));
const children = [];

async function recipe(heading) {
  const [, section] = readme.split(`### ${heading}`);
  const code = section?.match(/```js\n(.*?)```/s)?.[1];
  if (!code) throw new Error(`the README has no recipe "${heading}"`);
  const file = join(modules, `${heading.split(/\W/)[0]}.mjs`);
  writeFileSync(file, code);
  return import(file);
}

// start runs the program and returns it with the address that it prints first.
async function start(...args) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  children.push(child);
  for await (const chunk of child.stdout) return { child, at: String(chunk).trim().replace(/^.*?: /, '').replace(/\/$/, '') };
  throw new Error(`${args[0]} did not start`);
}

async function ready(url) {
  for (let i = 0; i < 200; i++, await sleep(100)) {
    const answer = await fetch(`${url}/readyz`).catch(() => null);
    if (answer?.ok) return;
  }
  throw new Error(`${url} did not become ready`);
}

const SEND = `mutation ($room: ID!, $n: String!) {
  sendMessage(input: {chatRoomId: $room, user: "alice", clientId: $n, text: "hello"}) {
    ... on SendMessageSuccess { message { serial } } ... on UserError { reason } } }`;
const CREATE = `mutation { createChatRoom(input: {name: "recipes"}) {
  ... on CreateChatRoomSuccess { chatRoom { id shard } } ... on UserError { reason } } }`;

async function main() {
  const { follow } = await recipe('graphql-ws');
  const urql = await recipe('urql');
  const apollo = await recipe('Apollo');

  const broker = await start('broker', '--listen=127.0.0.1:0', '--data-dir=:memory:');
  const servers = [];
  for (const name of ['a', 'b', 'c']) {
    servers.push(await start('serve', '--listen=127.0.0.1:0', `--brokers=${broker.at}`, `--data-dir=${join(data, name)}`,
      '--session-timeout=3s', '--rebalance-timeout=3s'));
  }
  for (const { at } of servers) await ready(at);
  const [home, victim, leaver] = servers;

  const byUrql = urql.client(home.at), byApollo = apollo.client(home.at);
  const created = await byUrql.mutation(CREATE, {}).toPromise();
  const room = created.data?.createChatRoom?.chatRoom?.id;
  if (!room) throw new Error(`no room: ${JSON.stringify(created)}`);

  const total = 300, got = [];
  const following = (async () => {
    for await (const message of follow(home.at, room, null, { webSocketImpl: WebSocket })) {
      got.push(Number(message.serial));
      if (got.length === total) return;
    }
  })();
  for (let n = 1; n <= total; n++) {
    if (n === total / 3) victim.child.kill('SIGKILL');
    if (n === (2 * total) / 3) leaver.child.kill('SIGTERM');
    const variables = { room, n: String(n) };
    const { data, error } = n % 2
      ? await byUrql.mutation(SEND, variables).toPromise()
      : await byApollo.mutate({ mutation: gql(SEND), variables });
    if (error || !data?.sendMessage?.message) throw error ?? new Error(`send ${n}: ${JSON.stringify(data)}`);
  }
  await Promise.race([following, sleep(20_000)]);
  if (got.length !== total || got.some((serial, i) => serial !== i + 1)) {
    throw new Error(`followed ${got.length} of ${total}: ${got}`);
  }
  console.log(`${total} messages by urql and Apollo, followed once and in order by graphql-ws`);
}

let code = 0;
try {
  await Promise.race([main(), sleep(120_000).then(() => { throw new Error('took too long'); })]);
} catch (e) {
  console.error(e);
  code = 1;
}
for (const child of children.reverse()) {
  if (child.exitCode === null && child.signalCode === null) {
    child.kill('SIGTERM');
    await Promise.race([new Promise((done) => child.on('exit', done)), sleep(5000)]);
  }
}
for (const dir of [modules, data]) rmSync(dir, { recursive: true, force: true });
process.exit(code);
