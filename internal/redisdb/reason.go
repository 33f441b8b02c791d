package redisdb

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

const (
	reasonSilent  = "redis does not answer"
	reasonMemory  = "redis is out of memory"
	reasonDenied  = "redis denies its user a command, a key or a channel that poold needs"
	reasonClosed  = "redis closes the connection without an answer"
	reasonLoading = "redis is loading its data"
	reasonVotes   = "the redis cluster is down: it has no quorum, or a part of its slots has no node"
	reasonMoves   = "the redis cluster is moving these keys to another node"
)

// reasons translates errors of Redis into plain words. If a command in a script fails, Redis 6.2
// adds other text around the command's error. So the text in the field words may occur anywhere in
// the text of the error.
var reasons = []struct{ words, reason string }{
	{"OOM command", reasonMemory},
	{"READONLY", "redis is read-only: this is a replica"},
	{"NOREPLICAS", "redis takes no writes: too few of its replicas follow it (min-replicas-to-write)"},
	{"MISCONF", "redis takes no writes: it cannot save to its disk"},
	{"MASTERDOWN", "redis is a replica whose master is away"},
	{"CLUSTERDOWN", reasonVotes},
	{"TRYAGAIN", reasonMoves},
	{"LOADING", reasonLoading},
	{"NOPERM", reasonDenied},
	{"ACL failure", reasonDenied},
	{"can't run this command", reasonDenied},
	{"can't access at least one of the keys", reasonDenied},
	{"WRONGPASS", "redis refuses the user or its password"},
	{"NOAUTH", "redis requires a password"},
	{"max number of clients", "redis has as many clients as its maxclients allows"},
	// go-redis follows a limited number of redirections in a call.
	{"ASK ", reasonMoves},
	{"MOVED ", reasonMoves},
}

// ErrDown means that Redis does not reply, or refuses the call. Either the call did nothing, or its
// reply was lost. The function Reason returns the cause.
var ErrDown = errors.New("redis does not answer")

// downError is an ErrDown with a reason in plain words.
type downError struct {
	reason  string
	where   string // host:port of the servers that were called; "" = unknown
	partial bool   // whether it is the fault of a part of a cluster
	cause   error
}

func (e *downError) Error() string { return e.Reason() + ": " + e.cause.Error() }

func (e *downError) Reason() string {
	if e.where == "" {
		return e.reason
	}
	return e.reason + " (" + e.where + ")"
}

func (e *downError) Unwrap() error        { return e.cause }
func (e *downError) Is(target error) bool { return target == ErrDown }

// Reason returns in plain words why a call failed with ErrDown. The text may contain the address of
// Redis, but never a key or a password. Errors of other stores may implement Reason() string.
func Reason(err error) string {
	var known interface{ Reason() string }
	if errors.As(err, &known) {
		return known.Reason()
	}
	return reasonSilent
}

// Down converts the error of an exchange with Redis to an ErrDown that wraps it.
func Down(err error) error {
	if err == nil || errors.Is(err, ErrDown) {
		return err
	}
	return &downError{reason: meaning(err), cause: err}
}

// is reports whether err is an ErrDown with this reason.
func is(err error, reason string) bool {
	var known *downError
	return errors.As(err, &known) && known.reason == reason
}

// isReply reports whether err is an error that Redis replied.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func meaning(err error) string {
	if strings.Contains(err.Error(), "all sentinels specified in configuration are unreachable") {
		return meaningOfSentinels(err)
	}
	var answer redis.Error
	if errors.As(err, &answer) {
		for _, r := range reasons {
			if strings.Contains(answer.Error(), r.words) {
				return r.reason
			}
		}
		return "redis answers with an error"
	}
	return meaningOfNetwork(err)
}

// meaningOfSentinels explains why the sentinels return no master. If one sentinel replied redis.Nil,
// this reply is more useful than the timeouts of the other sentinels.
func meaningOfSentinels(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, redis.Nil):
		return "the sentinels know no master of the name in redis.sentinel_master"
	case strings.Contains(text, "unknown command"):
		return "the address in redis.url is not a sentinel"
	case strings.Contains(text, "NOAUTH"):
		return "the sentinels require a password, and poold sends none"
	}
	return "no sentinel knows a master that answers"
}

// meaningOfNetwork explains why a server was not reached or did not reply.
func meaningOfNetwork(err error) string {
	var (
		dns         *net.DNSError
		certificate *tls.CertificateVerificationError
		plain       tls.RecordHeaderError
		alert       *net.OpError
	)
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "DNS does not know the name of redis' host"
	case errors.As(err, &dns):
		return "DNS does not answer for the name of redis' host"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "redis refuses the connection: nothing listens there"
	case errors.Is(err, syscall.ENOENT):
		return "redis' socket does not exist"
	case errors.Is(err, syscall.EACCES):
		return "the user of poold may not open redis' socket"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to redis"
	case errors.As(err, &certificate):
		return "redis' TLS certificate is not accepted: " + meaningOfCertificate(certificate.Err)
	case errors.As(err, &plain):
		return "redis speaks no TLS there: name its port for TLS, or begin with redis://"
	case errors.As(err, &alert) && alert.Op == "remote error":
		return "redis ends the TLS handshake; it may require a client certificate, and poold sends none"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return reasonClosed
	}
	return reasonSilent
}

func meaningOfCertificate(err error) string {
	var (
		host    x509.HostnameError
		signer  x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &host):
		return "it is for another host"
	case errors.As(err, &signer):
		return "this machine does not trust its issuer (SSL_CERT_FILE can name a file with more issuers)"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "it has expired, or is not valid yet"
	}
	return "it is not valid"
}

// withTLSHint extends the reason of a server that has never worked. The hint says that the server
// may use TLS although the address does not, or the reverse.
func withTLSHint(reason string, secure bool) string {
	switch {
	case secure && reason == reasonSilent:
		return reason + ", or speaks no TLS there"
	case !secure && reason == reasonClosed:
		return reason + ": if it requires TLS, begin with rediss://"
	}
	return reason
}

// partialFault returns the ErrDown of a cluster of which only the masters away cannot be used, because
// of err. The argument total is the number of all masters.
func partialFault(err error, away []string, total int) error {
	return &downError{partial: true, cause: err,
		reason: fmt.Sprintf("%d of the %d masters of the redis cluster cannot be used (%s): %s", len(away), total, firstThree(away), Reason(err))}
}

// firstThree joins the first three addresses and adds the number of the others.
func firstThree(addresses []string) string {
	const shown = 3
	if len(addresses) <= shown {
		return strings.Join(addresses, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(addresses[:shown], ", "), len(addresses)-shown)
}
