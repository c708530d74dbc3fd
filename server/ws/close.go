package ws

import "unicode/utf8"

// Close codes. graphql-ws reconnects after those marked "again" and gives up after those marked "final"
// (shouldRetryConnectOrThrow in its client.js): a client that did something wrong would do it again.
const (
	closeGoingAway          = 1001 // again: this instance stops, resume elsewhere by cursor
	closeTryLater           = 1013 // again: too many connections here, or from this address
	closeBadRequest         = 4400 // final: a message that the protocol does not know
	closeUnauthorized       = 4401 // final: subscribe before connection_ack
	closeForbidden          = 4403 // again: authentication was refused, or has expired; come with a new token
	closeBadSubprotocol     = 4406 // final
	closeInitTimeout        = 4408 // again
	closeSubscriberExists   = 4409 // final: an id is in use
	closeTooManyRequests    = 4429 // final: a second connection_init, or too many operations at once
	closeTooLarge           = 1009 // final: written by coder/websocket for a message over the limit
	closeBadFrame           = 1002 // final: written by coder/websocket for what RFC 6455 does not allow
	maxCloseReason          = 123  // bytes, RFC 6455 section 5.5
	reasonBadSubprotocol    = "Subprotocol not acceptable"
	reasonInitTimeout       = "Connection initialisation timeout"
	reasonTooManyInits      = "Too many initialisation requests"
	reasonUnauthorized      = "Unauthorized"
	reasonForbidden         = "Forbidden"
	reasonExpired           = "Forbidden: authentication has expired"
	reasonInvalid           = "Invalid message received"
	reasonTooManyOperations = "Too many operations at once on one connection"
	reasonTooManyHere       = "Too many connections"
	reasonGoingAway         = "Server is shutting down"
)

func reasonExists(id string) string {
	const head, tail = "Subscriber for ", " already exists"
	if n := maxCloseReason - len(head) - len(tail); len(id) > n {
		for n > 0 && !utf8.RuneStart(id[n]) {
			n--
		}
		id = id[:n]
	}
	return head + id + tail
}
