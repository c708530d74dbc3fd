package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/server/httpserver"
	"github.com/chathome/chathome/server/peers"
)

// pipes is a listener without a network, for fake time.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial() net.Conn {
	a, b := net.Pipe()
	p.conns <- b
	return a
}

// openStream asks for the room's events and returns the stream's bytes as they come.
func openStream(t *testing.T, p *pipes, protocol string, room domain.ChatRoomInfo) io.ReadCloser {
	t.Helper()
	path := "/graphql?" + url.Values{"query": {follow}, "variables": {fmt.Sprintf(`{"room":%q}`, room.ID)}}.Encode()
	if protocol == "HTTP/2.0" {
		transport := &http.Transport{
			ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dial(), nil },
		}
		t.Cleanup(transport.CloseIdleConnections)
		r, _ := http.NewRequest("GET", "https://127.0.0.1"+path, nil)
		r.Header.Set("Accept", "text/event-stream")
		answer, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil || answer.Proto != protocol {
			t.Fatalf("%+v %v", answer, err)
		}
		return answer.Body
	}
	c := p.dial()
	if _, err := fmt.Fprintf(c, "GET %s %s\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n", path, protocol); err != nil {
		t.Fatal(err)
	}
	return c
}

// golang/go#16100: an event stream with one event a minute lives for a day, and something comes every 12
// seconds; a peer that does not read any more is cut within a write timeout of that.
func TestStreams_LiveForADayAndDeadPeersAreCut(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for _, protocol := range []string{"HTTP/1.0", "HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				home := domaintest.New(domaintest.Config{})
				room := home.AddRoomOn(0, "lobby")
				log := slog.New(slog.DiscardHandler)
				followers := peers.NewLimiter(0, 0)
				ways, err := mount(graph.New(home), doors{followers: followers, log: log})
				if err != nil {
					t.Fatal(err)
				}
				cfg := httpserver.Config{
					GraphQL: ways, EndStreams: ways.shutdown, Limits: httpserver.DefaultLimits(), Log: log,
					Ready: func() []httpserver.Reason { return nil },
				}
				if protocol == "HTTP/2.0" {
					certify(t, cert, key, 1)
					pair, err := tls.LoadX509KeyPair(cert, key)
					if err != nil {
						t.Fatal(err)
					}
					cfg.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
				}
				server, listener := httpserver.New(cfg), newPipes()
				served := make(chan error, 1)
				go func() { served <- server.Serve(listener) }()

				body := openStream(t, listener, protocol, room)
				const minutes = 24 * 60
				events := make(chan string, minutes+1)
				pause := make(chan struct{})
				stopped := make(chan struct{})
				go func() {
					defer close(stopped)
					lines, last := bufio.NewReader(body), time.Now()
					for {
						line, err := lines.ReadString('\n')
						if err != nil {
							t.Errorf("the stream ended: %v", err)
							return
						}
						if d := time.Since(last); d > 12*time.Second {
							t.Errorf("nothing for %s", d)
						}
						last = time.Now()
						if data, ok := strings.CutPrefix(line, "data: "); ok {
							events <- data
						}
						select {
						case <-pause:
							return
						default:
						}
					}
				}()
				for range minutes {
					time.Sleep(time.Minute)
					home.PostN(room.ID, 1)
				}
				synctest.Wait()
				if n := len(events); n != minutes+1 { // the first says that it stands
					t.Errorf("%d events in a day, want %d", n, minutes+1)
				}
				if followers.Held() != 1 {
					t.Errorf("%d streams", followers.Held())
				}

				close(pause) // the reader leaves with the next line
				<-stopped
				began := time.Now()
				if protocol == "HTTP/2.0" {
					_ = body.Close() // whoever reads nothing on one stream still reads the others: cut with the connection only
				}
				for followers.Held() > 0 && time.Since(began) < time.Hour {
					time.Sleep(time.Second)
				}
				if d := time.Since(began); d > (12+10+1)*time.Second {
					t.Errorf("a dead peer was held for %s", d)
				}
				_ = body.Close()
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if err := server.Shutdown(ctx); err != nil {
					t.Error(err)
				}
				if err := <-served; err != nil {
					t.Error(err)
				}
				http.DefaultClient.CloseIdleConnections()
			})
		})
	}
}
