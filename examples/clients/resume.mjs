// Subscriptions that go on where they were. graphql-ws and graphql-sse send the *original* variables when they
// reconnect, and chathome would replay everything from there. Here `after` moves along with each event.
import { Route, retryable } from './rules.mjs';

/**
 * Wraps clients into one whose subscriptions survive cuts, restarts and moves of their shard, without a gap or a
 * repeat. It has the same subscribe(payload, sink) as they have, so Apollo, urql and Relay take it as it is.
 *
 * A document that is to be resumed asks for `endCursor`, and takes $after (and $last) as variables:
 *
 *   subscription ($room: ID!, $after: String) {
 *     messages(chatRoomId: $room, after: $after) { edges { node { id text } } endCursor } }
 *
 * @param {string} home
 * @param {(url: string) => {subscribe: Function}} clientAt a graphql-ws or graphql-sse client for this instance; that
 *   of home retries by itself when it is cut, others do not: then it is time to ask at home again
 */
export function resuming(home, clientAt) {
  /** @returns {() => void} leaves the subscription */
  function subscribe(payload, sink) {
    const request = { ...payload, variables: { ...payload.variables } };
    const route = new Route(home);
    let leave = () => {};
    let timer;

    function run() {
      let left = false; // whatever this attempt still says comes too late
      // The reason that its last event gave for its end. We do not leave at that event: graphql-ws would take the
      // complete behind it for a second leaving, and never close its socket again.
      let cause;
      const unsubscribe = clientAt(route.url).subscribe(request, {
        next(result) {
          cause = retryable(result.errors);
          if (left || cause) return; // complete() follows
          advance(request.variables, result.data);
          route.arrived();
          sink.next(result);
        },
        complete() {
          if (left) return;
          if (cause) again(cause);
          else sink.complete();
        },
        error(fault) {
          if (left) return;
          if (route.url !== route.home) again(cause);
          else sink.error(fault);
        },
      });
      leave = () => {
        left = true;
        unsubscribe();
      };
    }
    function again(cause) {
      timer = setTimeout(run, route.next(cause));
    }

    run();
    return () => {
      clearTimeout(timer);
      leave();
    };
  }

  /** The same as an asynchronous iterator of results. */
  async function* iterate(payload) {
    const results = [];
    let wake, fault, over = false;
    const leave = subscribe(payload, {
      next: (result) => { results.push(result); wake?.(); },
      error: (e) => { fault = e; over = true; wake?.(); },
      complete: () => { over = true; wake?.(); },
    });
    try {
      for (;;) {
        while (results.length) yield results.shift();
        if (fault) throw fault;
        if (over) return;
        await new Promise((resolve) => { wake = resolve; });
      }
    } finally {
      leave();
    }
  }

  return { subscribe, iterate };
}

/** The next attempt starts behind this event. The clients turn the variables into JSON only when they send them. */
function advance(variables, data) {
  const cursor = Object.values(data ?? {}).find((field) => field?.endCursor)?.endCursor;
  if (!cursor) return;
  variables.after = cursor;
  delete variables.last; // the server takes one of the two
}
