package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
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
	// ErrNoTable reports that a table of the schema was dropped. According to errors.Is, such an
	// error is also an ErrDown.
	ErrNoTable = errors.New("a table of the schema does not exist")
	// ErrNewer reports that a newer program has changed the schema of the database.
	ErrNewer = errors.New("the database's schema is newer than this program")
)

// fault is an error of this package. It does not contain the driver's text.
type fault struct {
	reason string
	down   bool // errors.Is reports ErrDown
	again  bool // an immediate retry may succeed
	lost   bool // errors.Is reports ErrNoTable
	stale  bool // the server at these connections accepts no changes or is stopping
}

func (f *fault) Error() string {
	if f.down {
		return ErrDown.Error() + ": " + f.reason
	}
	return "postgres: " + f.reason
}

func (f *fault) Is(target error) bool {
	return f.down && target == ErrDown || f.lost && target == ErrNoTable
}

// away reports whether the server is unreachable. During one outage, different calls may
// fail for different reasons.
func (f *fault) away() bool { return f.again || f.reason == silence }

// readOnly is the SQLSTATE of a change that a standby or a read-only server refuses.
const readOnly = "25006"

// undefinedTable is the SQLSTATE of a statement about a missing table. In any language, the server's
// text names the table.
const undefinedTable = "42P01"

var ownTable = regexp.MustCompile(`captcha_\w+`)

// noTable returns the error for the missing table with the given name.
func noTable(name string) *fault {
	return &fault{reason: "the table " + name + " does not exist: poold history init makes it", down: true, lost: true}
}

// silence is the reason in the error of a timeout.
const silence = "no answer in time"

var errBusy = &fault{reason: "another transaction holds the lock of this key", down: true, again: true}

// mayRetry reports whether an immediate retry may succeed.
func mayRetry(err error) bool {
	var f *fault
	return errors.As(err, &f) && f.again
}

// translate replaces an error of the driver by an error without the driver's text. That text may
// contain secrets and names.
func translate(err error) error {
	var known *fault
	var answer *pgconn.PgError
	var scan pgx.ScanArgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.Is(err, ErrNewer):
		return err
	case errors.As(err, &answer) && answer.Code == undefinedTable && ownTable.MatchString(answer.Message):
		return noTable(ownTable.FindString(answer.Message))
	case errors.As(err, &answer):
		return refusal(answer.Code)
	case errors.As(err, &scan), errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, pgx.ErrNoRows):
		return &fault{reason: "an unexpected answer"}
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		return &fault{reason: silence, down: true}
	default:
		return &fault{reason: brokenBy(err), down: true, again: true}
	}
}

// refusals lists errors that the server returns for any statement, by the prefix of their SQLSTATE. The
// first matching prefix applies.
var refusals = []struct {
	code  string
	fault fault
}{
	{"28", fault{reason: "it refuses the user or the password", down: true}},
	{"3D000", fault{reason: "it has no such database", down: true}},
	{"42501", fault{reason: "the user lacks a right", down: true}},
	{readOnly, fault{reason: "it takes no changes", down: true, stale: true}},
	{"53300", fault{reason: "it has too many connections", down: true, again: true}},
	{"53", fault{reason: "it lacks memory or disk", down: true}},
	{"57014", fault{reason: "it cancelled the statement", down: true}},
	{"57P0", fault{reason: "it starts or stops", down: true, again: true, stale: true}},
	{"57", fault{reason: "it starts or stops", down: true, again: true}},
	{"40", fault{reason: "transactions conflict", down: true, again: true}},
	{"08", fault{reason: "the connection broke", down: true, again: true}},
	{"58", fault{reason: "its system reports an error", down: true}},
	{"XX", fault{reason: "it reports an internal error", down: true}},
}

// refusal returns the error for a SQLSTATE. It omits the server's text, which names users and databases.
func refusal(code string) *fault {
	for _, r := range refusals {
		if strings.HasPrefix(code, r.code) {
			f := r.fault
			f.reason = fmt.Sprintf("%s (SQLSTATE %s)", f.reason, code)
			return &f
		}
	}
	return &fault{reason: "SQLSTATE " + code}
}

// brokenBy returns the reason of a failed connection.
func brokenBy(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such socket"
	case errors.As(err, &name):
		return "its host name is not known"
	case errors.As(err, &certificate):
		return "its certificate is not trusted"
	default:
		return "the connection broke"
	}
}
