package redisdb

import (
	"errors"
	"regexp"

	"github.com/redis/go-redis/v9"
)

const (
	reasonSilent   = "redis does not answer"
	reasonMemory   = "redis is out of memory"
	reasonDenied   = "redis denies its user a right that poold needs"
	reasonClosed   = "redis closes the connection without an answer"
	badCertificate = "redis' TLS certificate is not accepted: "
)

// outages translates the texts of errors into plain words. The first row that matches holds.
var outages = []struct {
	text   *regexp.Regexp
	reason string
}{
	// go-redis joins the errors of all sentinels. If one sentinel answered, its answer is more useful than the timeouts
	// of the others.
	{says(`(?s)all sentinels.*redis: nil`), "the sentinels know no master of the name in redis.sentinel_master"},
	{says(`(?s)all sentinels.*unknown command`), "the address in redis.url is not a sentinel"},
	{says(`(?s)all sentinels.*NOAUTH`), "the sentinels require a password: set redis.sentinel_password"},
	{says(`(?s)all sentinels.*WRONGPASS`), "the sentinels refuse redis.sentinel_user or redis.sentinel_password"},

	// If a command in a script fails, Redis 6.2 adds other text around the command's error.
	{says(`OOM command`), reasonMemory},
	{says(`READONLY`), "redis is read-only: this is a replica"},
	{says(`NOREPLICAS`), "redis takes no writes: too few of its replicas follow it (min-replicas-to-write)"},
	{says(`MISCONF`), "redis takes no writes: it cannot save to its disk"},
	{says(`MASTERDOWN`), "redis is a replica whose master is away"},
	{says(`CLUSTERDOWN`), "the redis cluster is down: it has no quorum, or a part of its slots has no node"},
	// go-redis follows a limited number of redirections in a call.
	{says(`TRYAGAIN|ASK |MOVED `), "the redis cluster is moving these keys to another node"},
	{says(`LOADING`), "redis is loading its data"},
	{says(`NOPERM|ACL failure|can't run this command|can't access at least one of the keys`), reasonDenied},
	{says(`WRONGPASS`), "redis refuses the user or its password"},
	{says(`NOAUTH`), "redis requires a password"},
	{says(`max number of clients`), "redis has as many clients as its maxclients allows"},
	{says(`DB index is out of range`), "redis has no database with the number in redis.url"},

	{says(`certificate is (not )?valid for|any IP SANs|legacy Common Name`), badCertificate + "it is for another host"},
	{says(`unknown authority`), badCertificate + "poold does not trust its issuer (redis.tls.ca)"},
	{says(`has expired or is not yet valid`), badCertificate + "it has expired, or is not valid yet"},
	{says(`failed to verify certificate`), badCertificate + "it is not valid"},
	{says(`not look like a TLS handshake`), "redis speaks no TLS there: name its port for TLS, or begin with redis://"},
	{says(`remote error: `), "redis ends the TLS handshake: it wants a client certificate, or another one (redis.tls)"},
	{says(`all sentinels`), "no sentinel knows a master that answers"},

	{says(`lookup .*: no such host`), "DNS does not know the name of redis' host"},
	{says(`lookup `), "DNS does not answer for the name of redis' host"},
	{says(`connection refused`), "redis refuses the connection: nothing listens there"},
	{says(`no such file or directory`), "redis' socket does not exist"},
	{says(`permission denied`), "the user of poold may not open redis' socket"},
	{says(`no route to host|network is unreachable`), "there is no route to redis"},
	{says(`EOF|connection reset`), reasonClosed},
}

var says = regexp.MustCompile

func meaning(err error) string {
	for _, row := range outages {
		if row.text.MatchString(err.Error()) {
			return row.reason
		}
	}
	if _, isReply := errors.AsType[redis.Error](err); isReply {
		return "redis answers with an error"
	}
	return reasonSilent
}

// ErrDown means that Redis does not reply, or refuses the call. Either the call did nothing, or its
// reply was lost. The function Reason returns the cause.
var ErrDown = errors.New("redis does not answer")

// downError is an ErrDown with a reason in plain words.
type downError struct {
	reason string // a reason of the table outages
	more   string // continues the reason
	where  string // host:port of the servers that were called; "" = unknown
	cause  error
}

func (e *downError) Error() string { return e.Reason() + ": " + e.cause.Error() }

func (e *downError) Reason() string {
	if e.where != "" {
		return e.reason + e.more + " (" + e.where + ")"
	}
	return e.reason + e.more
}

func (e *downError) Unwrap() error        { return e.cause }
func (e *downError) Is(target error) bool { return target == ErrDown }

// Reason returns in plain words why a call failed with ErrDown. The text may contain the address of
// Redis and the kind of a key, but never a whole key or a password. Errors of other stores may implement
// Reason() string.
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
	known, is := errors.AsType[*downError](err)
	return is && known.reason == reason
}
