// What an error of chathome asks a client to do. Every helper beside this file follows these rules; they are
// pure, so that they can be read and tested by themselves.

/**
 * The `extensions` of the first error after which the same request may be sent again: nothing was written, or
 * the server stores one client id once, however often it comes.
 * @param {ReadonlyArray<{extensions?: any}> | undefined} errors
 */
export function retryable(errors) {
  const again = ['SHARD_NOT_OWNED', 'OUTCOME_UNKNOWN', 'OVERLOADED'];
  return errors?.find((error) => again.includes(error.extensions?.code))?.extensions;
}

/** Milliseconds to wait where the server has not said how long: up to 5 s, and never the same for everybody. */
export const backoff = (tries) => Math.min(5000, 250 * 2 ** Math.min(tries, 6)) * (0.5 + Math.random() / 2);

/**
 * Where the next attempt of one request goes. It starts at `home`: a load balancer, or any instance.
 *
 * SHARD_NOT_OWNED may name the owner. Then the next attempt goes there, at once, but that is one hop and never
 * two in a row: instances that point at each other while a shard moves would play ball with the request. After a
 * hop that did not help, it waits and asks at home again.
 */
export class Route {
  /** @param {string} home such as https://chat.example, without /graphql */
  constructor(home) {
    this.home = this.url = home.replace(/\/$/, '');
    this.tries = 0;
    this.hopped = false;
  }

  /**
   * Moves on after an attempt that failed.
   * @param {any} [cause] what retryable() found; undefined where no answer came
   * @returns {number} milliseconds to wait before the next attempt, at `url`
   */
  next(cause) {
    this.tries++;
    const lost = cause?.shardNotOwned;
    const owner = lost?.owner?.instance;
    if (owner && owner.id !== lost.instance.id && !this.hopped) {
      this.hopped = true;
      this.url = owner.url.replace(/\/$/, '');
      return 0;
    }
    this.hopped = false;
    this.url = this.home;
    return cause?.retryAfterMs ? cause.retryAfterMs * (1 + Math.random() / 4) : backoff(this.tries);
  }

  /** An attempt has worked: whatever comes later starts to count anew. */
  arrived() {
    this.tries = 0;
    this.hopped = false;
  }
}
