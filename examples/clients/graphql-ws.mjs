// graphql-ws: follow a room through everything.
import { createClient } from 'graphql-ws';
import { resuming } from './resume.mjs';
import { backoff } from './rules.mjs';

/**
 * A client for subscriptions (queries and mutations work over it, too) that resumes by cursor and goes where the
 * shard is. Sockets open with the first subscription and close with the last.
 * @param {string} home
 * @param {Partial<import('graphql-ws').ClientOptions>} [options] for graphql-ws, such as connectionParams; in Node
 *   before version 22 also webSocketImpl, of the package ws
 */
export function sockets(home, options = {}) {
  const clients = new Map();
  const base = home.replace(/\/$/, '');
  return resuming(base, (url) => {
    if (!clients.has(url)) {
      clients.set(url, createClient({
        url: url.replace(/^http/, 'ws') + '/graphql',
        retryAttempts: url === base ? Infinity : 0,
        shouldRetry: () => true, // by default a server that restarts is given up: a refused connection is an "error"
        retryWait: (tries) => new Promise((resolve) => setTimeout(resolve, backoff(tries))),
        ...options,
      }));
    }
    return clients.get(url);
  });
}

export const MESSAGES = `subscription Messages($room: ID!, $after: String) {
  messages(chatRoomId: $room, after: $after) {
    edges { node { id serial user clientId text sentAt } }
    endCursor
    live
  }
}`;

/**
 * Every message of a room once and in order, first those that are stored, then live.
 * @param {ReturnType<typeof sockets>} client of this file, or of graphql-sse.mjs
 * @param {string} room
 * @param {string | null} [after] an endCursor to start behind
 */
export async function* follow(client, room, after = null) {
  for await (const { data, errors } of client.iterate({ query: MESSAGES, variables: { room, after } })) {
    if (errors) throw new Error(`${errors[0].extensions?.code}: ${errors[0].message}`); // CURSOR_OUT_OF_RANGE …
    for (const { node } of data.messages.edges) yield node;
  }
}
