// Apollo Client 4: queries and mutations are sent again when the server asks for it, subscriptions resume.
import { ApolloClient, ApolloLink, CombinedGraphQLErrors, HttpLink, InMemoryCache, ServerError } from '@apollo/client';
import { ErrorLink } from '@apollo/client/link/error';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { OperationTypeNode } from 'graphql';
import { switchMap, timer } from 'rxjs';
import { sockets } from './graphql-ws.mjs';
import { Route, retryable } from './rules.mjs';

/**
 * Apollo's RetryLink sees faults of the network only, never errors[].extensions.code; ErrorLink sees both. What it
 * returns is not watched any more, so it hands each further attempt to itself.
 */
export function retryLink(home, attempts = 20) {
  const link = new ErrorLink(({ error, operation, forward }) => {
    const cause = CombinedGraphQLErrors.is(error) ? retryable(error.errors) : undefined;
    if (!cause && !lostOnTheWay(error)) return; // an answer for whoever asked
    const route = operation.getContext().route ?? new Route(home);
    const wait = route.next(cause);
    if (route.tries >= attempts) return;
    operation.setContext({ route, uri: route.url + '/graphql' });
    return timer(wait).pipe(switchMap(() => link.request(operation, forward)));
  });
  return link;
}

/** No answer, or one of a proxy: it may have been written. The same clientId makes it safe to send it again. */
function lostOnTheWay(error) {
  if (CombinedGraphQLErrors.is(error) || error.name === 'AbortError') return false;
  return !ServerError.is(error) || error.statusCode >= 500;
}

/**
 * @param {string} home
 * @param {Parameters<typeof sockets>[1]} [socketOptions]
 */
export function apollo(home, socketOptions) {
  return new ApolloClient({
    cache: new InMemoryCache(), // nothing to configure: `id` is unique over all rooms and users
    link: ApolloLink.split(
      ({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION,
      new GraphQLWsLink(sockets(home, socketOptions)),
      ApolloLink.from([retryLink(home), new HttpLink({ uri: home.replace(/\/$/, '') + '/graphql' })]),
    ),
  });
}
