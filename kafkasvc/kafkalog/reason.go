package kafkalog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"

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
		alert    tls.AlertError
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
	case errors.As(err, &alert):
		return "it refuses our side of the TLS handshake; it may want a client certificate"
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
