package kafkalog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// Reason tries each broker that is known, on a new connection, as far as a first request, and says why the cluster
// cannot be reached: one *BrokerError for each broker, joined. It is nil as soon as one answers. Its text is for
// operators' logs; it names the fault in words ("wrong user name or password") and never a password.
func (c *Cluster) Reason(ctx context.Context) error {
	contacts := c.routes.contacts()
	if len(contacts) == 0 {
		return errNoBrokers
	}
	var errs []error
	for _, addr := range contacts {
		k, err := c.dial(ctx, addr)
		if err == nil {
			one, cancel := context.WithTimeout(ctx, c.cfg.RPCTimeout)
			err = c.with(one, k, func(k *conn) error {
				_, err := k.roundTrip(&metadata.Request{TopicNames: []string{}})
				return err
			})
			cancel()
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// brokerError says where on the way to a broker err happened, and in words what it usually means there.
func (c *Cluster) brokerError(addr string, stage Stage, err error) error {
	if err == nil || errors.Is(err, ErrClosed) {
		return err
	}
	if be := (*BrokerError)(nil); errors.As(err, &be) {
		return err
	}
	return &BrokerError{Broker: addr, Stage: stage, Err: err, hint: c.hint(stage, err)}
}

func (c *Cluster) hint(stage Stage, err error) string {
	var (
		dns      *net.DNSError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		expired  x509.CertificateInvalidError
		record   tls.RecordHeaderError
		network  *net.OpError
	)
	hungUp := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
	switch {
	case errors.As(err, &dns):
		return "its name cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there"
	case errors.Is(err, kafka.SASLAuthenticationFailed):
		return "wrong user name or password"
	case errors.Is(err, kafka.UnsupportedSASLMechanism):
		return "it does not offer this SASL mechanism"
	case errors.Is(err, kafka.IllegalSASLState):
		return "it expects no SASL on this port"
	case errors.As(err, &unknown):
		return "its certificate is signed by an unknown authority"
	case errors.As(err, &hostname):
		return "its certificate is for another host name"
	case errors.As(err, &expired):
		return "its certificate is not valid"
	case errors.As(err, &record), stage == StageTLS && hungUp:
		return "it does not speak TLS on this port"
	case errors.As(err, &network) && network.Op == "remote error": // an alert of TLS
		return c.refusedCertificate()
	case stage == StageVersions && hungUp && c.cfg.TLS == nil:
		return "it hung up on the first request; it probably expects TLS on this port"
	case stage == StageAuthenticate && hungUp:
		return "it hung up on authentication; it probably expects none on this port"
	case stage == StageRequest && hungUp && c.cfg.SASL == nil:
		return "it hung up on a request; it was stopped, or it expects SASL on this port"
	case stage == StageTLS && errors.Is(err, context.DeadlineExceeded):
		return "it did not answer in time; it may not speak TLS on this port"
	case errors.Is(err, context.DeadlineExceeded):
		return "it did not answer in time"
	}
	return ""
}

// refusedCertificate says what is wrong with our own certificate. A broker's alert hardly tells.
func (c *Cluster) refusedCertificate() string {
	if c.cfg.TLS == nil {
		return "it refuses the TLS handshake"
	}
	ours := c.cfg.TLS().Certificates
	if len(ours) == 0 {
		return "it refuses the TLS handshake; it wants a certificate of ours, and none is configured"
	}
	if leaf := ours[0].Leaf; leaf != nil && time.Now().After(leaf.NotAfter) {
		return "it refuses our certificate, which expired on " + leaf.NotAfter.UTC().Format(time.DateTime) + " UTC; renew it"
	}
	return "it refuses our certificate; have it signed by an authority that the brokers trust"
}
