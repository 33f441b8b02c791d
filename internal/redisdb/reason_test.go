package redisdb

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb/redistest"
)

// Health and the log contain the fault of Redis and its address, without the password.
func TestReasonsNameTheFaultAndTheAddress(t *testing.T) {
	t.Parallel()
	const password = "canary-password"
	locked := redistest.Server(t, "--requirepass", "other")
	_, replica, _ := net.SplitHostPort(redistest.Server(t, "--replicaof", "127.0.0.1 1"))
	liar := redistest.SentinelOf(t, "sentinel monitor main 127.0.0.1 "+replica+" 1\n") // names a replica as the master
	fails := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	of := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	untrusted := func(err error) error { return &tls.CertificateVerificationError{Err: err} }
	const at = "redis://:" + password + "@redis.example.com:6379"
	secure := strings.Replace(at, "redis:", "rediss:", 1)
	for name, c := range map[string]struct {
		address, master string
		fault           error // fault of the dial; nil = no injected fault
		reason, where   string
	}{
		"wrong password":  {"redis://:" + password + "@" + locked, "", nil, "redis refuses the user or its password", locked},
		"no password":     {"redis://" + locked, "", nil, "redis requires a password", locked},
		"no sentinel":     {"redis://" + locked, "main", nil, "the address in redis.url is not a sentinel", "sentinels " + locked},
		"wrong master":    {"redis://" + liar, "main", nil, "redis is read-only: this is a replica", "sentinels " + liar},
		"nobody there":    {"redis://:" + password + "@127.0.0.1:1", "", nil, "redis refuses the connection: nothing listens there", "127.0.0.1:1"},
		"no socket":       {"unix://:" + password + "@/no/such.sock", "", nil, "redis' socket does not exist", "/no/such.sock"},
		"locked socket":   {at, "", of(syscall.EACCES), "the user of poold may not open redis' socket", ""},
		"no such host":    {at, "", of(&net.DNSError{Err: "no such host", IsNotFound: true}), "DNS does not know the name of redis' host", ""},
		"no DNS":          {at, "", of(&net.DNSError{Err: "i/o timeout", IsTimeout: true}), "DNS does not answer for the name of redis' host", ""},
		"no route":        {at, "", of(syscall.EHOSTUNREACH), "there is no route to redis", ""},
		"signer":          {secure, "", untrusted(x509.UnknownAuthorityError{}), "redis' TLS certificate is not accepted: this machine does not trust its issuer (SSL_CERT_FILE can name a file with more issuers)", ""},
		"other host":      {secure, "", untrusted(x509.HostnameError{Certificate: new(x509.Certificate)}), "redis' TLS certificate is not accepted: it is for another host", ""},
		"too old":         {secure, "", untrusted(x509.CertificateInvalidError{Reason: x509.Expired}), "redis' TLS certificate is not accepted: it has expired, or is not valid yet", ""},
		"no TLS":          {secure, "", tls.RecordHeaderError{}, "redis speaks no TLS there: name its port for TLS, or begin with redis://", ""},
		"client's":        {secure, "", &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}, "redis ends the TLS handshake; it may require a client certificate, and poold sends none", ""},
		"silent with TLS": {secure, "", context.DeadlineExceeded, "redis does not answer, or speaks no TLS there", ""},
		"silent":          {at, "", context.DeadlineExceeded, "redis does not answer", ""},
		"closed":          {at, "", io.EOF, "redis closes the connection without an answer: if it requires TLS, begin with rediss://", ""},
		"closed with TLS": {secure, "", io.EOF, "redis closes the connection without an answer", ""},
		"cluster away":    {at + "," + at, "", of(syscall.ECONNREFUSED), "redis refuses the connection: nothing listens there", "redis.example.com:6379, redis.example.com:6379"},
		"sentinels away":  {at + "," + at, "main", of(syscall.ECONNREFUSED), "no sentinel knows a master that answers", "sentinels redis.example.com:6379, redis.example.com:6379"},
	} {
		check := func(t *testing.T) {
			o := Options{Addresses: c.address, SentinelMaster: c.master, Prefix: "test"}
			if c.fault != nil {
				o.Dial = fails(c.fault)
			}
			var log bytes.Buffer
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			s := opened(t, o)
			if c.where == "" {
				c.where = "redis.example.com:6379"
			}
			now := s.monitor.probe(t.Context())
			s.monitor.turn(s.condition.Swap(now), now)
			if got, want := s.Health().Reason, c.reason+" ("+c.where+")"; got != want {
				t.Errorf("health: %s\nwant: %s", got, want)
			}
			if !errors.Is(now.err, ErrDown) || !strings.Contains(log.String(), c.reason) || strings.Contains(log.String()+now.err.Error(), password) {
				t.Errorf("%v\nlog: %s", now.err, log.String())
			}
			s.monitor.met.Store(true) // if the server has served before, the address has the right protocol
			if now = s.monitor.probe(t.Context()); strings.Contains(Reason(now.err), "or speaks no TLS") || strings.Contains(Reason(now.err), "if it wants TLS") {
				t.Errorf("of one that has served: %s", Reason(now.err))
			}
		}
		t.Run(name, func(t *testing.T) {
			if c.fault == nil {
				check(t)
			} else { // without a real server, time can be virtual
				synctest.Test(t, check)
			}
		})
	}
	// go-redis joins the errors of all sentinels.
	const sentinels = "redis: all sentinels specified in configuration are unreachable: %w"
	for want, err := range map[string]error{
		"the sentinels know no master of the name in redis.sentinel_master": errors.Join(of(syscall.ECONNREFUSED), redis.Nil),
		"the sentinels require a password, and poold sends none":            errors.New("NOAUTH Authentication required."),
	} {
		if got := Reason(Down(fmt.Errorf(sentinels, err))); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
	cluster := &DB{Mode: ModeCluster}
	cluster.condition.Store(&condition{})
	for _, answer := range []string{"TRYAGAIN Multiple keys request during rehashing of slot", "ASK 1059 127.0.0.1:1", "CLUSTERDOWN Hash slot not served", "LOADING Redis is loading the dataset in memory"} {
		if err := Down(redisAnswer(answer)); !cluster.Passing(err) || Reason(err) == "redis answers with an error" {
			t.Errorf("%s: %s", answer, Reason(err))
		}
	}
	if err := Down(redisAnswer("READONLY You can't write against a read only replica.")); cluster.Passing(err) || cluster.Passing(nil) {
		t.Errorf("passes: %v", err)
	}
	if got := firstThree([]string{"a", "b", "c", "d", "e"}); got != "a, b, c and 2 more" {
		t.Error(got)
	}
}

// redisAnswer is an error that Redis replied.
type redisAnswer string

func (a redisAnswer) Error() string { return string(a) }
func (redisAnswer) RedisError()     {}
