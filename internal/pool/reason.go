package pool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	reasonSilent = "redis does not answer"
	reasonMemory = "redis is out of memory"
	reasonDenied = "redis denies its user a command, a key or a channel that poold needs"
)

// reasons say in plain words what an answer of Redis means. Redis 6.2 wraps what
// a script's command was answered with, so the words may stand anywhere in it.
var reasons = []struct{ words, reason string }{
	{"OOM command", reasonMemory},
	{"READONLY", "redis is read-only: this is a replica"},
	{"NOREPLICAS", "redis takes no writes: too few of its replicas follow it (min-replicas-to-write)"},
	{"MISCONF", "redis takes no writes: it cannot save to its disk"},
	{"MASTERDOWN", "redis is a replica whose master is away"},
	{"CLUSTERDOWN", "the redis cluster is down: it has no quorum, or a part of its slots has no node"},
	{"LOADING", "redis is loading its data"},
	{"NOPERM", reasonDenied},
	{"ACL failure", reasonDenied},
	{"can't run this command", reasonDenied},
	{"can't access at least one of the keys", reasonDenied},
	{"WRONGPASS", "redis refuses the user or its password"},
	{"NOAUTH", "redis wants a password"},
	{"max number of clients", "redis has as many clients as it takes"},
}

// downError is ErrDown with the reason in plain words.
type downError struct {
	reason string
	cause  error
}

func (e *downError) Error() string        { return "pool: " + e.reason + ": " + e.cause.Error() }
func (e *downError) Reason() string       { return e.reason }
func (e *downError) Unwrap() error        { return e.cause }
func (e *downError) Is(target error) bool { return target == ErrDown }

// Reason says in plain words why an exchange with Redis failed, for what is
// ErrDown; never with an address, a key or a password. An error of another store that
// stands in for ErrDown says so by a method of the same name.
func Reason(err error) string {
	var known interface{ Reason() string }
	if errors.As(err, &known) {
		return known.Reason()
	}
	return reasonSilent
}

// down marks every failure of an exchange with Redis as ErrDown, says why in
// plain words and keeps the cause.
func down(err error) error {
	if err == nil || errors.Is(err, ErrDown) {
		return err
	}
	return &downError{reason: meaning(err), cause: err}
}

func meaning(err error) string {
	var answer redis.Error
	if errors.As(err, &answer) {
		for _, r := range reasons {
			if strings.Contains(answer.Error(), r.words) {
				return r.reason
			}
		}
		return "redis answers with an error"
	}
	if strings.Contains(err.Error(), "all sentinels specified in configuration are unreachable") {
		return "no sentinel knows a master that answers"
	}
	return reasonSilent
}

// partly is down for a part of a cluster.
func partly(err error, away, all int) error {
	return &downError{
		reason: fmt.Sprintf("%d of the %d masters of the redis cluster cannot be used: %s", away, all, Reason(err)),
		cause:  err,
	}
}
