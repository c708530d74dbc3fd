// Package auth is the seam for saying who may come in. chathome itself lets everybody in: a user's name in a
// message is a claim, not a proof. Whoever embeds or extends the server puts an Authenticate here; all
// transports ask it.
package auth

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Authenticate decides whether somebody may come in. header are the request's headers, init the payload of
// connection_init on a WebSocket, nil elsewhere or where there was none.
//
// viewer tells people apart: everybody with the same viewer may be sent the same bytes. expiry is when it ends;
// zero for never. err refuses; its text stays in the server. It must return when ctx ends.
type Authenticate func(ctx context.Context, header http.Header, init json.RawMessage) (viewer string, expiry time.Time, err error)

// Everybody lets everybody in, as one and the same viewer.
func Everybody(context.Context, http.Header, json.RawMessage) (string, time.Time, error) {
	return "", time.Time{}, nil
}

type viewerKey struct{}

// WithViewer is for transports: resolvers find the viewer with Viewer.
func WithViewer(ctx context.Context, viewer string) context.Context {
	if viewer == "" {
		return ctx
	}
	return context.WithValue(ctx, viewerKey{}, viewer)
}

// Viewer is whom Authenticate let in, empty for everybody.
func Viewer(ctx context.Context) string {
	v, _ := ctx.Value(viewerKey{}).(string)
	return v
}
