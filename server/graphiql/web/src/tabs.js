// Examples that work as they are, one after the other: create a room, send, follow, look at the shards.
const room = '6f1d5b0e-2a4c-4c1e-9d57-3f0a8c2b7e11';

const json = (value) => JSON.stringify(value, null, 2);

export const tabs = [
  {
    query: `# 1. Create a chat room. With an id this may be
#    repeated: the room is created once.
mutation CreateRoom($input: CreateChatRoomInput!) {
  createChatRoom(input: $input) {
    __typename
    ... on CreateChatRoomSuccess {
      duplicate
      chatRoom { id name shard createdAt }
    }
    ... on UserError { reason }
    ... on InvalidInput { fields { field rule limit actual } }
  }
}
`,
    variables: json({ input: { id: room, name: 'Example' } }),
  },
  {
    query: `# 2. Send a message. The same clientId again is a
#    duplicate; with another text it is a
#    MessageMutation.
mutation Send($input: SendMessageInput!) {
  sendMessage(input: $input) {
    __typename
    ... on SendMessageSuccess {
      duplicate
      message { serial sentAt user text }
    }
    ... on UserError { reason }
    ... on MessageMutation { existing { serial text } }
    ... on InvalidInput { fields { field rule limit actual } }
  }
}
`,
    variables: json({ input: { chatRoomId: room, user: 'alice', clientId: '1', text: 'Hello!' } }),
  },
  {
    query: `# 3. Follow the room: what is there, then what comes.
#    Run it, then send something from another window.
#    after: an endCursor, to go on where you were.
#    last: how many to begin with.
subscription Follow($room: ID!, $after: String, $last: Int) {
  messages(chatRoomId: $room, after: $after, last: $last) {
    edges { node { serial user text sentAt } }
    endCursor
    live
  }
}
`,
    variables: json({ room }),
  },
  {
    query: `# 4. What this instance serves. The error
#    SHARD_NOT_OWNED holds what notOwned says here.
query Shards {
  instance { id url }
  shards {
    number
    state
    notOwned {
      owner { instance { id url } version }
      progress { loaded target ratio }
      retryAfterMs
    }
  }
}
`,
  },
];
