// Stock clients with the helpers of examples/clients against a cluster of three servers that loses some.
//
//   node test.mjs      needs $PROGRAM, or bin/chathome at the root
//
// Exit 0 when all is well, 1 when not.
import { after } from 'node:test';
import { Cluster } from '../cluster.mjs';
import { ids } from './ids.test.mjs';
import { moves } from './moves.test.mjs';
import './readme.test.mjs';
import './rules.test.mjs';
import { cuts, herd } from './sockets.test.mjs';

const cluster = await Cluster.start(['a', 'b', 'c']);
after(() => cluster.stop());
ids(cluster);
cuts(cluster);
herd(cluster);
moves(cluster);

// Node 20 may spin for ever while it cleans up behind sockets that were reset (Environment::CleanupHandles).
process.on('exit', (code) => process.exit(code));
