// Runs one operation at a time: queries and mutations by POST, subscriptions over graphql-transport-ws.
"use strict";

const $ = (id) => document.getElementById(id);

$("query").value = `# Ctrl-Enter runs this. Send a message, then subscribe in another tab:
#   subscription { messages(chatRoomId: "…") { edges { node { user text serial } } endCursor live } }
#   mutation { sendMessage(input: {chatRoomId: "…", user: "alice", clientId: "1", text: "hello"}) {
#     ... on SendMessageSuccess { duplicate message { serial sentAt } } ... on UserError { reason } } }
mutation {
  createChatRoom(input: {name: "lounge"}) {
    ... on CreateChatRoomSuccess { chatRoom { id name shard } }
    ... on UserError { reason }
  }
}
`;

const show = (value) => { $("answer").textContent = JSON.stringify(value, null, 2); };
const append = (value) => {
  $("answer").textContent += JSON.stringify(value, null, 2) + "\n";
  $("answer").scrollTop = $("answer").scrollHeight;
};
const state = (text) => { $("state").textContent = text; };

let socket = null;

function stop() {
  if (socket) socket.close(1000);
  socket = null;
  $("stop").disabled = true;
}

function isSubscription(query) {
  return /^\s*subscription\b/m.test(query.replace(/#.*$/gm, ""));
}

async function run() {
  stop();
  let variables;
  try {
    variables = JSON.parse($("variables").value || "{}");
  } catch (error) {
    state("variables: " + error.message);
    return;
  }
  const payload = { query: $("query").value, variables };
  $("answer").textContent = "";
  if (isSubscription(payload.query)) subscribe(payload);
  else await post(payload);
}

async function post(payload) {
  state("waiting");
  try {
    const answer = await fetch("graphql", {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify(payload),
    });
    state(String(answer.status));
    show(await answer.json());
  } catch (error) {
    state(error.message);
  }
}

function subscribe(payload) {
  const url = new URL("graphql", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  const ws = new WebSocket(url, "graphql-transport-ws");
  socket = ws;
  $("stop").disabled = false;
  state("connecting");
  ws.onopen = () => ws.send(JSON.stringify({ type: "connection_init" }));
  ws.onmessage = (event) => {
    const message = JSON.parse(event.data);
    switch (message.type) {
      case "connection_ack":
        state("subscribed");
        ws.send(JSON.stringify({ id: "1", type: "subscribe", payload }));
        break;
      case "ping":
        ws.send(JSON.stringify({ type: "pong" }));
        break;
      case "next":
      case "error":
        append(message.payload);
        break;
      case "complete":
        state("complete");
        ws.close(1000);
        break;
    }
  };
  ws.onclose = (event) => {
    if (socket === ws) stop();
    state("closed " + event.code + " " + event.reason);
  };
}

$("run").addEventListener("click", run);
$("stop").addEventListener("click", stop);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
});
