// A way to a server that can be cut, slowed down, or led elsewhere.
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** @returns {Promise<Proxy>} a proxy on a free port of this machine */
export async function proxy() {
  const links = new Set();
  const self = {
    url: '',
    /** The port to go to. */
    target: 0,
    /** How long the first pieces that the server writes on the next connection are held back, in milliseconds. */
    delays: [],
    /** Connections so far. */
    count: 0,
    /** Resets every connection (RST). */
    cut() {
      for (const link of links) link.resetAndDestroy();
    },
    close() {
      server.close();
      for (const link of links) link.destroy();
    },
  };
  const server = createServer({ noDelay: true }, (from) => {
    self.count++;
    links.add(from);
    const to = connect({ port: self.target, host: '127.0.0.1', noDelay: true });
    from.on('error', () => {});
    to.on('error', () => {});
    from.on('close', () => { links.delete(from); to.destroy(); });
    from.pipe(to);
    deliver(to, from, self.delays.splice(0)).then(() => from.end(), () => from.destroy());
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  self.url = `http://127.0.0.1:${server.address().port}`;
  return self;
}

async function deliver(to, from, delays) {
  for await (const piece of to) {
    if (delays.length) await sleep(delays.shift());
    from.write(piece);
  }
}
