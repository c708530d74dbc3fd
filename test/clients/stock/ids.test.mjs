// Ids, serials and cursors keep their digits, and each message has one key in every cache.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gql } from '@apollo/client';
import { cacheExchange } from '@urql/exchange-graphcache';
import { getIntrospectionQuery } from 'graphql';
import relay from 'relay-runtime';
import { apollo } from 'chathome-examples/apollo.mjs';
import { MESSAGES } from 'chathome-examples/graphql-ws.mjs';
import { environment } from 'chathome-examples/relay.mjs';
import { urql } from 'chathome-examples/urql.mjs';
import { createRoom, input, send, SEND } from '../cluster.mjs';
import { socketOptions } from './clients.mjs';
import MessagesOfRelay from './relay/__generated__/documentsMessagesSubscription.graphql.js';
import SendOfRelay from './relay/__generated__/documentsSendMutation.graphql.js';

/** @param {import('../cluster.mjs').Cluster} cluster */
export function ids(cluster) {
  const [{ url }] = cluster.instances;

  test('two ids that are one number in JavaScript are two messages', async (t) => {
    const room = await createRoom(url);
    const big = ['9007199254740993', '9007199254740992'];
    const client = apollo(url, socketOptions);
    t.after(() => client.stop());
    for (const id of big) {
      const { data } = await client.mutate({ mutation: gql(SEND), variables: { input: input(room, id) } });
      assert.equal(data.sendMessage.duplicate, false);
      assert.equal(data.sendMessage.message.clientId, id);
    }
    const { data } = await client.query({
      query: gql`query ($room: ID!) { chatRoom(id: $room) { messages { edges { cursor node { id clientId serial } } } } }`,
      variables: { room },
    });
    const { edges } = data.chatRoom.messages;
    assert.deepEqual(edges.map(({ node }) => node.clientId), big);
    assert.deepEqual(edges.map(({ node }) => node.serial), ['1', '2']);
    for (const { cursor, node } of edges) assert.deepEqual([typeof cursor, typeof node.id], ['string', 'string']);
  });

  test('an id is a string, written into the document or as a variable; a number is refused', async () => {
    const room = await createRoom(url);
    const variables = (clientId) => ({ input: { ...input(room, ''), text: 'once', clientId } });
    const inline = await send(url, `mutation { sendMessage(input: {chatRoomId: "${room}", user: "alice", text: "once",
      clientId: "9007199254740993"}) { ... on SendMessageSuccess { duplicate message { id } } } }`);
    const variable = await send(url, SEND, variables('9007199254740993'));
    assert.equal(inline.data.sendMessage.duplicate, false);
    assert.equal(variable.data.sendMessage.duplicate, true);
    assert.equal(variable.data.sendMessage.message.id, inline.data.sendMessage.message.id);
    const number = await fetch(`${url}/graphql`, {
      method: 'POST', headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: SEND, variables: variables('#') }).replace('"#"', '9007199254740993'),
    });
    const refused = await number.json();
    assert.equal(refused.errors?.[0].extensions.code, 'BAD_REQUEST', JSON.stringify(refused));
  });

  // Alice and Bob use the client id "1" in two rooms; each cache has to see four messages, and to find those of the
  // mutation in the subscription again.
  const four = [['alice', 0], ['bob', 0], ['alice', 1], ['bob', 1]];
  const twoRooms = () => Promise.all([createRoom(url), createRoom(url)]);

  test("Apollo's InMemoryCache has one key for a message, and another for each other", async (t) => {
    const rooms = await twoRooms();
    const client = apollo(url, socketOptions);
    t.after(() => client.stop());
    const messages = () => Object.keys(client.cache.extract()).filter((key) => key.startsWith('Message:')).sort();
    for (const [user, room] of four) await client.mutate({ mutation: gql(SEND), variables: { input: input(rooms[room], '1', user) } });
    const sent = messages();
    assert.equal(sent.length, 4);
    const received = [];
    for (const room of rooms) {
      await first(2, (next) => {
        const subscription = client.subscribe({ query: gql(MESSAGES), variables: { room } }).subscribe(({ data }) => {
          for (const { node } of data.messages.edges) next(received.push(`Message:${node.id}`));
        });
        return () => subscription.unsubscribe();
      });
    }
    assert.deepEqual(received.sort(), sent);
    assert.deepEqual(messages(), sent, 'the subscription added entities');
  });

  test("urql's Graphcache does, too", async () => {
    const rooms = await twoRooms();
    const keys = { sent: [], received: [] };
    const client = urql(url, {
      socketOptions,
      cache: cacheExchange({
        schema: (await send(url, getIntrospectionQuery())).data, // else it guesses which fragment fits which type
        updates: {
          Mutation: { sendMessage: ({ sendMessage }, _, cache) => { keys.sent.push(cache.keyOfEntity(sendMessage.message)); } },
          Subscription: { messages: ({ messages }, _, cache) => {
            for (const { node } of messages.edges) keys.received.push(cache.keyOfEntity(node));
          } },
        },
      }),
    });
    for (const [user, room] of four) {
      const { error } = await client.mutation(SEND, { input: input(rooms[room], '1', user) }).toPromise();
      assert.ifError(error);
    }
    for (const room of rooms) {
      await first(2, (next) => {
        const subscription = client.subscription(MESSAGES, { room }).subscribe(({ data }) => data?.messages.edges.forEach(next));
        return () => subscription.unsubscribe();
      });
    }
    assert.equal(new Set(keys.sent).size, 4, keys.sent.join());
    assert.deepEqual(new Set(keys.received), new Set(keys.sent));
    assert.ok(keys.sent.every((key) => key.startsWith('Message:')), keys.sent.join());
  });

  test("Relay's store does, too", async () => {
    const rooms = await twoRooms();
    const relayEnvironment = environment(url, socketOptions);
    const messages = () => {
      const source = relayEnvironment.getStore().getSource();
      return source.getRecordIDs().filter((id) => source.get(id)?.__typename === 'Message').sort();
    };
    for (const [user, room] of four) {
      await new Promise((resolve, reject) => relay.commitMutation(relayEnvironment, {
        mutation: SendOfRelay, variables: { input: input(rooms[room], '1', user) }, onCompleted: resolve, onError: reject,
      }));
    }
    const sent = messages();
    assert.equal(sent.length, 4);
    for (const room of rooms) {
      await first(2, (next) => {
        const subscription = relay.requestSubscription(relayEnvironment, {
          subscription: MessagesOfRelay, variables: { room }, onNext: ({ messages }) => messages.edges.forEach(next),
        });
        return () => subscription.dispose();
      });
    }
    assert.deepEqual(messages(), sent, 'the subscription added records');
  });
}

// first waits until next was called n times, and leaves.
async function first(n, begin) {
  let leave;
  await new Promise((resolve) => { leave = begin(() => --n === 0 && resolve()); });
  leave();
}
