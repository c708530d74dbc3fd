// Plain fetch: one query or mutation, sent until it is answered.
import { Route, retryable } from './rules.mjs';

/**
 * A retry is always safe: a message is stored once under its clientId, wherever it is sent. Give createChatRoom an
 * id of your own for the same reason.
 * @param {string} home
 * @param {{query: string, variables?: object, operationName?: string}} request
 * @param {{attempts?: number, headers?: object, signal?: AbortSignal}} [options]
 * @returns {Promise<{data?: any, errors?: any[]}>}
 */
export async function ask(home, request, { attempts = 20, headers = {}, signal } = {}) {
  const route = new Route(home);
  for (;;) {
    let answer, fault;
    try {
      const response = await fetch(route.url + '/graphql', {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json', ...headers },
        body: JSON.stringify(request),
        signal,
      });
      answer = await response.json();
    } catch (e) {
      if (signal?.aborted) throw e;
      fault = e; // no answer, or a proxy's: it may have been written
    }
    const cause = retryable(answer?.errors);
    if (answer && !cause) return answer;
    const wait = route.next(cause);
    if (route.tries >= attempts) {
      if (fault) throw fault;
      return answer;
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}
