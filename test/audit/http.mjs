// The audits of the npm package graphql-http against a running server, as a table.
//
//   node http.mjs [URL]        default http://127.0.0.1:8080/graphql
//
// Exit 0 when every audit passes (MUST, SHOULD and MAY), 1 when one does not, 2 when the server cannot be reached.
import { serverAudits } from 'graphql-http';

const url = process.argv[2] ?? 'http://127.0.0.1:8080/graphql';

try {
  await fetch(url, { method: 'OPTIONS' });
} catch (e) {
  console.error(`audit: no server at ${url}: ${e.cause?.message ?? e.message}`);
  process.exit(2);
}

const rank = { MUST: 0, SHOULD: 1, MAY: 2 };
const rows = [];
for (const audit of serverAudits({ url })) {
  const result = await audit.fn(); // one after the other: a busy machine must not fail an audit
  const level = audit.name.split(' ')[0];
  rows.push({ id: audit.id, level, name: audit.name, status: result.status, reason: result.reason });
}
rows.sort((a, b) => rank[a.level] - rank[b.level]);
for (const r of rows) {
  console.log(`${r.status === 'ok' ? 'ok  ' : 'FAIL'}  ${r.id}  ${r.name}${r.reason ? `\n      ${r.reason}` : ''}`);
}
console.log();
for (const level of Object.keys(rank)) {
  const of = rows.filter((r) => r.level === level);
  console.log(`${level.padEnd(6)}  ${of.filter((r) => r.status === 'ok').length} of ${of.length}`);
}
const passed = rows.filter((r) => r.status === 'ok').length;
console.log(`all     ${passed} of ${rows.length}`);
process.exit(passed === rows.length && rows.length > 0 ? 0 : 1);
