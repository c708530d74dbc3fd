// urql: queries and mutations are sent again when the server asks for it, subscriptions resume.
import { Client, cacheExchange, fetchExchange, subscriptionExchange } from '@urql/core';
import { retryExchange } from '@urql/exchange-retry';
import { sockets } from './graphql-ws.mjs';
import { Route, retryable } from './rules.mjs';

/** The options of retryExchange. */
export const retries = (home) => ({
  maxNumberAttempts: 20,
  maxDelayMs: 5000,
  // Subscriptions see to themselves.
  retryIf: (error, operation) => operation.kind !== 'subscription' && Boolean(error.networkError || retryable(error.graphQLErrors)),
  retryWith(error, operation) {
    const route = operation.context.route ?? new Route(home);
    const delay = route.next(retryable(error.graphQLErrors)) || 1;
    // The exchange waits 1.5 to 2.5 times the delay that it finds here.
    const retry = { count: operation.context.retry?.count ?? 0, delay };
    return { ...operation, context: { ...operation.context, route, retry, url: route.url + '/graphql' } };
  },
});

/**
 * @param {string} home
 * @param {{socketOptions?: object, cache?: import('@urql/core').Exchange}} [options] cache: Graphcache, for example
 */
export function urql(home, { socketOptions, cache = cacheExchange } = {}) {
  const live = sockets(home, socketOptions);
  return new Client({
    url: home.replace(/\/$/, '') + '/graphql',
    preferGetMethod: false,
    exchanges: [
      cache,
      retryExchange(retries(home)),
      fetchExchange,
      subscriptionExchange({
        forwardSubscription: (request) => ({
          subscribe: (sink) => ({ unsubscribe: live.subscribe({ query: request.query, variables: request.variables }, sink) }),
        }),
      }),
    ],
  });
}
