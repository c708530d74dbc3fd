// The page at /: GraphiQL on this server's own API. Everything comes from this server, nothing from elsewhere.
import { createGraphiQLFetcher } from '@graphiql/toolkit';
import { GraphiQL } from 'graphiql';
import { createClient } from 'graphql-ws';
import { createRoot } from 'react-dom/client';
import 'graphiql/style.css';
import './page.css';
import { tabs } from './tabs.js';

const base = new URL('graphiql/', document.baseURI);
const worker = (name) => new Worker(new URL(`${name}.worker.js`, base), { name });

globalThis.MonacoEnvironment = {
  getWorker: (_id, label) => worker(label === 'json' || label === 'graphql' ? label : 'editor'),
};

const api = new URL('graphql', document.baseURI);
const socket = new URL(api);
socket.protocol = api.protocol === 'https:' ? 'wss:' : 'ws:';

const fetcher = createGraphiQLFetcher({
  url: api.href,
  wsClient: createClient({ url: socket.href, lazy: true }),
});

createRoot(document.getElementById('page')).render(
  <GraphiQL
    fetcher={fetcher}
    defaultTabs={tabs}
    defaultEditorToolsVisibility="variables"
    shouldPersistHeaders={false}
  >
    <GraphiQL.Logo>chathome</GraphiQL.Logo>
  </GraphiQL>,
);
