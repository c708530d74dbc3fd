// graphql-sse: the same over event streams, for networks that do not let WebSockets through. A browser opens six
// connections to one host over HTTP/1.1: with more subscriptions than that use HTTP/2, or WebSockets.
import { createClient } from 'graphql-sse';
import { resuming } from './resume.mjs';
import { backoff } from './rules.mjs';

/**
 * A client for subscriptions that resumes by cursor and goes where the shard is.
 * @param {string} home
 * @param {Partial<import('graphql-sse').ClientOptions>} [options] for graphql-sse, such as headers
 */
export function streams(home, options = {}) {
  const clients = new Map();
  const base = home.replace(/\/$/, '');
  return resuming(base, (url) => {
    if (!clients.has(url)) clients.set(url, client(url, url === base ? Infinity : 0, options));
    return clients.get(url);
  });
}

function client(url, retryAttempts, options) {
  let status = 200;
  return createClient({
    url: url + '/graphql',
    retryAttempts,
    async fetchFn(...request) {
      status = 0;
      const response = await fetch(...request);
      status = response.status;
      return response;
    },
    // graphql-sse retries whatever is not 200, but a request that is wrong stays wrong.
    async retry(tries) {
      if (status >= 400 && status < 500) throw new Error(`the server refused the request with status ${status}`);
      await new Promise((resolve) => setTimeout(resolve, backoff(tries)));
    },
    ...options,
  });
}
