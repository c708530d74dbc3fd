import assert from 'node:assert/strict';

/** A sink for a subscription to messages, which keeps their serials. */
export function seen() {
  const waiting = new Set();
  const tell = () => waiting.forEach((check) => check());
  const self = {
    serials: [],
    /** What ended it, which nothing should. */
    ended: undefined,
    add(node) {
      self.serials.push(Number(node.serial));
      tell();
    },
    end(how = 'completed') {
      self.ended ??= how;
      tell();
    },
    next({ data, errors }) {
      if (errors) return self.end(errors);
      for (const { node } of data.messages.edges) self.add(node);
    },
    error: (fault) => self.end(fault),
    complete: () => self.end(),
    /** Waits until n messages have come. */
    until: (n, limit = 15_000) => new Promise((resolve, reject) => {
      const check = () => {
        if (self.ended !== undefined) done(reject, new Error(`ended: ${describe(self.ended)}`));
        else if (self.serials.length >= n) done(resolve);
      };
      const done = (how, what) => {
        clearTimeout(timer);
        waiting.delete(check);
        how(what);
      };
      const timer = setTimeout(() => done(reject, new Error(`${self.serials.length} of ${n} messages after ${limit} ms`)), limit);
      waiting.add(check);
      check();
    }),
  };
  return self;
}

const describe = (fault) => fault?.stack ?? fault?.message ?? JSON.stringify(fault);

/** Fails unless the list is 1, 2, 3 … n: no gap, no repeat, no other order. */
export function inOrder({ serials }, n) {
  assert.deepEqual(serials, Array.from({ length: n }, (_, i) => i + 1));
}
