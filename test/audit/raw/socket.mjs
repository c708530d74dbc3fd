// A WebSocket by hand (RFC 6455), because real clients hide what a server says to a client that does something
// wrong, and cannot do it wrong.
import { randomBytes } from 'node:crypto';
import { request } from 'node:http';

export const TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10;

/**
 * Opens a socket. Rejects with the status where the upgrade is refused.
 * @param {string} at http://…
 * @param {{protocols?: string[], headers?: object}} [options]
 */
export async function open(at, { protocols = ['graphql-transport-ws'], headers = {} } = {}) {
  const asked = request(at, {
    headers: {
      connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13',
      'sec-websocket-key': randomBytes(16).toString('base64'),
      ...(protocols.length ? { 'sec-websocket-protocol': protocols.join(', ') } : {}),
      ...headers,
    },
  });
  asked.end();
  return new Promise((resolve, reject) => {
    asked.on('upgrade', (response, socket, head) => resolve(new Socket(socket, head, response.headers['sec-websocket-protocol'])));
    asked.on('response', (response) => { response.resume(); reject(Object.assign(new Error(`status ${response.statusCode}`), { status: response.statusCode })); });
    asked.on('error', reject);
  });
}

class Socket {
  #socket; #rest; #frames = []; #wake; #over = false;

  constructor(socket, head, protocol) {
    this.#socket = socket;
    this.#rest = head;
    this.protocol = protocol;
    socket.on('data', (bytes) => { this.#rest = Buffer.concat([this.#rest, bytes]); this.#parse(); });
    socket.on('error', () => {});
    socket.on('close', () => { this.#over = true; this.#wake?.(); });
    this.#parse();
  }

  #parse() {
    for (;;) {
      const b = this.#rest;
      if (b.length < 2) return;
      let length = b[1] & 127, at = 2;
      if (length === 126) { if (b.length < 4) return; length = b.readUInt16BE(2); at = 4; }
      else if (length === 127) { if (b.length < 10) return; length = Number(b.readBigUInt64BE(2)); at = 10; }
      if (b.length < at + length) return;
      this.#rest = b.subarray(at + length);
      const frame = { opcode: b[0] & 15, payload: b.subarray(at, at + length) };
      if (frame.opcode === PING) this.frame(PONG, frame.payload);
      else this.#frames.push(frame);
      this.#wake?.();
    }
  }

  /** Sends one frame as it is. */
  frame(opcode, payload, { fin = true, masked = true, reserved = 0 } = {}) {
    const body = Buffer.from(payload);
    const head = Buffer.alloc(body.length < 126 ? 2 : body.length < 65536 ? 4 : 10);
    head[0] = (fin ? 128 : 0) | reserved | opcode;
    head[1] = masked ? 128 : 0;
    if (head.length === 2) head[1] |= body.length;
    else if (head.length === 4) { head[1] |= 126; head.writeUInt16BE(body.length, 2); }
    else { head[1] |= 127; head.writeBigUInt64BE(BigInt(body.length), 2); }
    if (!masked) return void this.#socket.write(Buffer.concat([head, body]));
    const mask = randomBytes(4);
    for (let i = 0; i < body.length; i++) body[i] ^= mask[i & 3];
    this.#socket.write(Buffer.concat([head, mask, body]));
  }

  /** Sends a message: an object as JSON, a string as it is. */
  send(message) {
    this.frame(TEXT, typeof message === 'string' ? message : JSON.stringify(message));
  }

  async #next(limit) {
    const end = Date.now() + limit;
    while (!this.#frames.length && !this.#over && Date.now() < end) {
      await new Promise((resolve) => { this.#wake = resolve; setTimeout(resolve, end - Date.now()); });
    }
    return this.#frames.shift();
  }

  /** The next thing that the server says: a message, or {closed: code, reason}; undefined after limit milliseconds. */
  async next(limit = 5000) {
    const frame = await this.#next(limit);
    if (!frame) return this.#over ? { closed: 1006, reason: '' } : undefined;
    if (frame.opcode === TEXT) return JSON.parse(frame.payload);
    if (frame.opcode !== CLOSE) return { opcode: frame.opcode, payload: frame.payload.toString() };
    return { closed: frame.payload.length >= 2 ? frame.payload.readUInt16BE(0) : 1005, reason: frame.payload.subarray(2).toString() };
  }

  end() { this.#socket.destroy(); }
}
