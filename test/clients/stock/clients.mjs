// Each stock client with its helper, in two roles that the tests can use alike.
import { gql } from '@apollo/client';
import relay from 'relay-runtime';
import WebSocket from 'ws';
import { apollo } from 'chathome-examples/apollo.mjs';
import { ask } from 'chathome-examples/fetch.mjs';
import { follow, MESSAGES, sockets } from 'chathome-examples/graphql-ws.mjs';
import { streams } from 'chathome-examples/graphql-sse.mjs';
import { environment } from 'chathome-examples/relay.mjs';
import { urql } from 'chathome-examples/urql.mjs';
import { input, SEND } from '../cluster.mjs';
import MessagesOfRelay from './relay/__generated__/documentsMessagesSubscription.graphql.js';
import SendOfRelay from './relay/__generated__/documentsSendMutation.graphql.js';

export const socketOptions = { webSocketImpl: WebSocket };

/**
 * Follow a room: call onMessage with each message, until leave() is called; onEnd where it ends by itself.
 * @type {Record<string, (home: string, options: {room: string, onMessage: Function, onEnd?: Function}) => {leave: () => any}>}
 */
export const followers = {
  'graphql-ws': (home, options) => iterated(sockets(home, socketOptions), options),
  'graphql-sse': (home, options) => iterated(streams(home), options),
  apollo(home, { room, onMessage, onEnd = console.error }) {
    const client = apollo(home, socketOptions);
    const subscription = client.subscribe({ query: gql(MESSAGES), variables: { room } }).subscribe({
      next: ({ data, error }) => (error ? onEnd(error) : deliver(data, onMessage)),
      error: onEnd,
      complete: onEnd,
    });
    return { leave() { subscription.unsubscribe(); client.stop(); } };
  },
  urql(home, { room, onMessage, onEnd = console.error }) {
    const subscription = urql(home, { socketOptions }).subscription(MESSAGES, { room }).subscribe(
      ({ data, error }) => (error ? onEnd(error) : deliver(data, onMessage)));
    return { leave: () => subscription.unsubscribe() };
  },
  relay(home, { room, onMessage, onEnd = console.error }) {
    const subscription = relay.requestSubscription(environment(home, socketOptions), {
      subscription: MessagesOfRelay,
      variables: { room },
      onNext: (data) => deliver(data, onMessage),
      onError: onEnd,
      onCompleted: onEnd,
    });
    return { leave: () => subscription.dispose() };
  },
};

function deliver(data, onMessage) {
  for (const { node } of data.messages.edges) onMessage(node);
}

function iterated(client, { room, onMessage, onEnd = console.error }) {
  const leave = client.subscribe({ query: MESSAGES, variables: { room } }, {
    next: ({ data, errors }) => (errors ? onEnd(errors) : deliver(data, onMessage)),
    error: onEnd,
    complete: onEnd,
  });
  return { leave };
}

/**
 * Send one message: answer is a promise of what sendMessage says.
 * @type {Record<string, (home: string, options: {room: string, clientId: string, user?: string}) => {answer: Promise<any>, leave: () => any}>}
 */
export const senders = {
  fetch(home, { room, clientId, user }) {
    const stop = new AbortController();
    const answer = ask(home, { query: SEND, variables: { input: input(room, clientId, user) } }, { signal: stop.signal })
      .then(({ data, errors }) => data?.sendMessage ?? Promise.reject(new Error(JSON.stringify(errors))));
    return quiet({ answer, leave: () => stop.abort() });
  },
  apollo(home, { room, clientId, user }) {
    const client = apollo(home, socketOptions);
    const stop = new AbortController();
    const answer = client.mutate({
      mutation: gql(SEND), variables: { input: input(room, clientId, user) }, context: { fetchOptions: { signal: stop.signal } },
    }).then(({ data }) => data.sendMessage);
    return quiet({ answer, leave() { stop.abort(); client.stop(); } });
  },
  urql(home, { room, clientId, user }) {
    let subscription;
    const answer = new Promise((resolve, reject) => {
      subscription = urql(home, { socketOptions }).mutation(SEND, { input: input(room, clientId, user) }).subscribe(
        ({ data, error }) => (error ? reject(error) : resolve(data.sendMessage)));
    });
    return quiet({ answer, leave: () => subscription.unsubscribe() });
  },
  relay(home, { room, clientId, user }) {
    let mutation;
    const answer = new Promise((resolve, reject) => {
      mutation = relay.commitMutation(environment(home, socketOptions), {
        mutation: SendOfRelay,
        variables: { input: input(room, clientId, user) },
        onCompleted: ({ sendMessage }, errors) => (errors ? reject(errors) : resolve(sendMessage)),
        onError: reject,
      });
    });
    return quiet({ answer, leave: () => mutation.dispose() });
  },
};

// A test may leave before there is an answer.
function quiet(running) {
  running.answer.catch(() => {});
  return running;
}

export { follow };
