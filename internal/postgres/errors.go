package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"regexp"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrDown reports that the server does not respond or cannot execute the call now. A later attempt may succeed.
	ErrDown = errors.New("postgres does not serve")
	// ErrNewer reports that a newer program has changed the schema of the database.
	ErrNewer = errors.New("the database's schema is newer than this program")
)

// fault is an error of this package. It does not contain the driver's text, which names hosts, users and databases and
// sometimes the whole address.
type fault struct {
	reason string
	down   bool // errors.Is reports ErrDown
	again  bool // an immediate retry may succeed
	stale  bool // the server at these connections takes no changes or is stopping

	missing string // name of a table that does not exist
}

func (f *fault) Error() string {
	if f.down {
		return ErrDown.Error() + ": " + f.reason
	}
	return "postgres: " + f.reason
}

func (f *fault) Is(target error) bool { return f.down && target == ErrDown }

// refusals are the errors that a server returns for any statement, by the prefix of their SQLSTATE.
var refusals = []struct {
	code string
	fault
}{
	{"28", fault{reason: "it refuses the user or the password", down: true}},
	{"3D000", fault{reason: "it has no such database", down: true}},
	{"42501", fault{reason: "the user lacks a right", down: true}},
	{"25006", fault{reason: "it takes no changes", down: true, stale: true}},
	{"53300", fault{reason: "it has too many connections", down: true, again: true}},
	{"53", fault{reason: "it lacks memory or disk", down: true}},
	{"57P0", fault{reason: "it starts or stops", down: true, again: true, stale: true}},
	{"40", fault{reason: "transactions conflict", down: true, again: true}},
	{"08", fault{reason: "the connection broke", down: true, again: true}},
	{"22", fault{reason: "it refuses the content"}},
	{"23", fault{reason: "it refuses the content"}},
	{"42", fault{reason: "it refuses the statement"}},
	{"54", fault{reason: "it refuses the content"}},
	{"", fault{reason: "it reports an error", down: true}},
}

// refusal returns the error for a SQLSTATE. It omits the server's text.
func refusal(code string) *fault {
	i := 0
	for !strings.HasPrefix(code, refusals[i].code) {
		i++
	}
	f := refusals[i].fault
	f.reason += " (SQLSTATE " + code + ")"
	return &f
}

// silence is the reason of a timeout.
const silence = "no answer in time"

// isAway reports whether the server is unreachable. Calls may fail for different reasons during one outage.
func isAway(err error) bool {
	var f *fault
	return errors.As(err, &f) && (f.again || f.reason == silence)
}

// ownTable finds the name of a table in the server's text, in any language.
var ownTable = regexp.MustCompile(`(captcha|poold)_\w+`)

func noTable(name string) error {
	return &fault{reason: "the table " + name + " does not exist: poold history init makes it", down: true, missing: name}
}

// translate replaces an error of the driver.
func translate(err error) error {
	var known *fault
	var answer *pgconn.PgError
	var system syscall.Errno
	var host *net.DNSError
	var certificate *tls.CertificateVerificationError
	down := func(reason string) error { return &fault{reason: reason, down: true, again: true} }
	switch {
	case err == nil, errors.Is(err, ErrNewer):
		return err
	case errors.As(err, &known):
		return known
	case errors.As(err, &answer) && answer.Code == "42P01" && ownTable.MatchString(answer.Message):
		return noTable(ownTable.FindString(answer.Message))
	case errors.As(err, &answer):
		return refusal(answer.Code)
	case errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, pgx.ErrNoRows):
		return &fault{reason: "an unexpected answer"}
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		return &fault{reason: silence, down: true}
	case errors.As(err, &system):
		return down(system.Error())
	case errors.As(err, &host):
		return down("its host name is not known")
	case errors.As(err, &certificate):
		return down("its certificate is not trusted")
	}
	return down("the connection broke")
}
