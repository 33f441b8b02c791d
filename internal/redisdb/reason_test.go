package redisdb

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// Health and the log contain the fault of Redis and its address, without the password.
func TestReasonsNameTheFaultAndTheAddress(t *testing.T) {
	t.Parallel()
	const password = "canary-password"
	locked := redistest.Server(t, "--requirepass", "other")
	_, replica, _ := net.SplitHostPort(redistest.Server(t, "--replicaof", "127.0.0.1 1"))
	liar := redistest.SentinelOf(t, "sentinel monitor main 127.0.0.1 "+replica+" 1\n").Addr // names a replica as master
	of := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	untrusted := func(err error) error { return &tls.CertificateVerificationError{Err: err} }
	const at = "redis://:" + password + "@redis.example.com:6379"
	secure := strings.Replace(at, "redis:", "rediss:", 1)
	for name, c := range map[string]struct {
		address, master string
		fault           error // fault of the dial; nil = no injected fault
		reason, where   string
	}{
		"wrong password": {"redis://:" + password + "@" + locked, "", nil, "redis refuses the user or its password", locked},
		"no password":    {"redis://" + locked, "", nil, "redis requires a password", locked},
		"no sentinel": {"redis://" + locked, "main", nil, "the address in redis.url is not a sentinel", "sentinels " +
			locked},
		"wrong master": {"redis://" + liar, "main", nil, "redis is read-only: this is a replica", "sentinels " + liar},
		"nobody there": {"redis://:" + password + "@127.0.0.1:1", "", nil,
			"redis refuses the connection: nothing listens there", "127.0.0.1:1"},
		"no socket":     {"unix://:" + password + "@/no/such.sock", "", nil, "redis' socket does not exist", "/no/such.sock"},
		"locked socket": {at, "", of(syscall.EACCES), "the user of poold may not open redis' socket", ""},
		"no such host": {at, "", of(&net.DNSError{Err: "no such host", IsNotFound: true}),
			"DNS does not know the name of redis' host", ""},
		"no DNS": {at, "", of(&net.DNSError{Err: "i/o timeout", IsTimeout: true}),
			"DNS does not answer for the name of redis' host", ""},
		"no route": {at, "", of(syscall.EHOSTUNREACH), "there is no route to redis", ""},
		"other host": {secure, "", untrusted(x509.HostnameError{Certificate: new(x509.Certificate)}), badCertificate +
			"it is for another host", ""},
		"too old": {secure, "", untrusted(x509.CertificateInvalidError{Reason: x509.Expired}), badCertificate +
			"it has expired, or is not valid yet", ""},
		"no TLS": {secure, "", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
			"redis speaks no TLS there: name its port for TLS, or begin with redis://", ""},
		"silent with TLS": {secure, "", context.DeadlineExceeded, "redis does not answer, or speaks no TLS there", ""},
		"silent":          {at, "", context.DeadlineExceeded, "redis does not answer", ""},
		"closed": {at, "", io.EOF,
			"redis closes the connection without an answer: if it requires TLS, begin with rediss://", ""},
		"closed with TLS": {secure, "", io.EOF, "redis closes the connection without an answer", ""},
		"cluster away": {at + "," + at, "", of(syscall.ECONNREFUSED),
			"redis refuses the connection: nothing listens there", "redis.example.com:6379, redis.example.com:6379"},
		"sentinels away": {at + "," + at, "main", of(syscall.ECONNREFUSED), "no sentinel knows a master that answers",
			"sentinels redis.example.com:6379, redis.example.com:6379"},
	} {
		check := func(t *testing.T) {
			var log testkit.Log
			o := Options{Addresses: c.address, SentinelMaster: c.master, Log: log.Logger()}
			if c.fault != nil {
				o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, c.fault }
			}
			s := opened(t, o)
			now := s.probe(t.Context(), time.Time{})
			s.report(s.condition.Swap(now), now)
			testkit.Equal(t, "health", s.Health().Reason, c.reason+" ("+cmp.Or(c.where, "redis.example.com:6379")+")")
			if text := log.String(); !errors.Is(now.fault, ErrDown) || !strings.Contains(text, c.reason) ||
				strings.Contains(text, password) {
				t.Errorf("%v\nlog: %s", now.fault, text)
			}
			s.met.Store(true) // if the server has served before, the address has the right protocol
			if got := Reason(s.probe(t.Context(), time.Time{}).fault); strings.Contains(got, "or speaks no TLS") ||
				strings.Contains(got, "if it requires TLS") {
				t.Errorf("of one that has served: %s", got)
			}
		}
		t.Run(name, func(t *testing.T) {
			if c.fault == nil {
				check(t)
				return
			}
			synctest.Test(t, func(t *testing.T) { // without a real server, time can be virtual
				t.Cleanup(func() { time.Sleep(2 * time.Second) }) // go-redis dials once a second after Close
				check(t)
			})
		})
	}
	for _, answer := range []string{
		"TRYAGAIN Multiple keys request during rehashing of slot", "ASK 1059 127.0.0.1:1", "CLUSTERDOWN Hash slot not served",
		"LOADING Redis is loading the dataset in memory", "NOREPLICAS Not enough good replicas to write.",
		"MISCONF Redis is configured", "MASTERDOWN Link with MASTER is down", "ERR max number of clients reached",
		"OOM command not allowed",
	} {
		if got := Reason(Down(redisAnswer(answer))); got == "redis answers with an error" || got == reasonSilent {
			t.Errorf("%s: %s", answer, got)
		}
	}
}

// A missing right is named with the command and the kind of the key, whether Redis denies a call, a command in a
// script, or a key.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	addr := redistest.Server(t)
	db := opened(t, Options{Addresses: "redis://poold:" + redistest.Password + "@" + addr, Prefix: "captcha"})
	redistest.Do(t, addr, "ACL", "SETUSER", "poold", "on", ">"+redistest.Password, "~{captcha}:*", "+@all", "-getex",
		"-xadd")
	run := func(text, key string) error { return NewScript(text).Run(t.Context(), db.Fast, []string{key}).Err() }
	push := db.Slow.Pipeline()
	push.LPush(t.Context(), "captcha:events:private", "x")
	_, pushed := push.Exec(t.Context())
	for want, err := range map[string]error{
		"the command GETEX, here with {captcha}:secret": db.Slow.GetEx(t.Context(), "{captcha}:secret", time.Hour).Err(),
		"the command XADD, here with {captcha}:outbox:*": run("\n\nredis.call('XADD', KEYS[1], '*', 'a', 'b')",
			"{captcha}:outbox:ends"),
		"the keys of GET, here with {captcha}:reply:*": run("return redis.call('GET', 'captcha:x')",
			"{captcha}:reply:private"),
		"the keys of LPUSH, here with captcha:events:*": pushed,
		"the keys of EVAL, here with captcha:reply:*": redis.NewScript("return {redis.call('GET', KEYS[1])}").Eval(
			t.Context(), db.Slow, []string{"captcha:reply:private"}).Err(),
	} {
		if got := Reason(err); !errors.Is(err, ErrDown) || got != reasonDenied+": "+want {
			t.Errorf("%s, want %s (%v)", got, want, err)
		}
	}
}

// redisAnswer is an error that Redis replied.
type redisAnswer string

func (a redisAnswer) Error() string { return string(a) }
func (redisAnswer) RedisError()     {}
