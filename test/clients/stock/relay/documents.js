// What Relay's clients in these tests send. relay-compiler 21.0.1 makes __generated__ of it:
//
//   bin/chathome schema > schema.graphql
//   npx relay-compiler@21.0.1 --src test/clients/stock/relay --schema schema.graphql --language javascript --eagerEsModules
import { graphql } from 'relay-runtime';

graphql`mutation documentsSendMutation($input: SendMessageInput!) {
  sendMessage(input: $input) {
    __typename
    ... on SendMessageSuccess { duplicate message { id serial text } }
    ... on UserError { reason }
  }
}`;
graphql`subscription documentsMessagesSubscription($room: ID!, $after: String) {
  messages(chatRoomId: $room, after: $after) { edges { node { id serial text } } endCursor live }
}`;
