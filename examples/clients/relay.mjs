// Relay: a network layer that sends queries and mutations again when the server asks for it, and whose
// subscriptions resume.
import relay from 'relay-runtime';
import { ask } from './fetch.mjs';
import { sockets } from './graphql-ws.mjs';

const { Environment, Network, Observable, RecordSource, Store } = relay;

/**
 * @param {string} home
 * @param {Parameters<typeof sockets>[1]} [socketOptions]
 */
export function network(home, socketOptions) {
  const live = sockets(home, socketOptions);
  return Network.create(
    (operation, variables) => Observable.create((sink) => {
      const stop = new AbortController();
      ask(home, { query: operation.text, operationName: operation.name, variables }, { signal: stop.signal })
        .then((answer) => { sink.next(answer); sink.complete(); })
        .catch((fault) => stop.signal.aborted || sink.error(fault));
      return () => stop.abort();
    }),
    (operation, variables) => Observable.create((sink) =>
      live.subscribe({ query: operation.text, operationName: operation.name, variables }, sink)),
  );
}

/** An environment whose store keys on `id`, as Relay does by default. */
export const environment = (home, socketOptions) =>
  new Environment({ network: network(home, socketOptions), store: new Store(new RecordSource()) });
