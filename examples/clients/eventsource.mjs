// A browser's own EventSource, without any library. When it is cut it comes back by itself and sends the id of the
// last event, which is a cursor. What is left to do is to go where the shard is.
import { Route, retryable } from './rules.mjs';

const QUERY = `subscription ($room: ID!, $after: String) {
  messages(chatRoomId: $room, after: $after) { edges { node { id serial user clientId text sentAt } } endCursor } }`;

/**
 * Every message of a room once and in order, first those that are stored, then live. A page of another origin than
 * an instance's has to be in its --allowed-origins.
 * @param {string} home
 * @param {string} room
 * @param {{onMessage: (message: any) => void, onError?: (errors: any[]) => void, after?: string}} options
 * @returns {() => void} leaves
 */
export function follow(home, room, { onMessage, onError = console.error, after = undefined }) {
  const route = new Route(home);
  let source, timer;

  function open() {
    const variables = JSON.stringify({ room, after });
    source = new EventSource(`${route.url}/graphql?${new URLSearchParams({ query: QUERY, variables })}`);
    source.addEventListener('next', ({ data: text }) => {
      const { data, errors } = JSON.parse(text);
      const cause = retryable(errors);
      if (cause) return again(cause);
      if (errors) {
        source.close();
        return onError(errors); // CURSOR_OUT_OF_RANGE, UNKNOWN_CHAT_ROOM …
      }
      after = data.messages.endCursor;
      route.arrived();
      for (const { node } of data.messages.edges) onMessage(node);
    });
    source.addEventListener('complete', () => source.close());
    source.addEventListener('error', () => {
      const givenUp = source.readyState === EventSource.CLOSED;
      if (givenUp || route.url !== route.home) again(); // else the browser is coming back already
    });
  }
  function again(cause) {
    source.close();
    timer = setTimeout(open, route.next(cause));
  }

  open();
  return () => {
    clearTimeout(timer);
    source.close();
  };
}
