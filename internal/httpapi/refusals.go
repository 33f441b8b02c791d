package httpapi

import (
	"errors"
	"hash/crc32"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/pool"
	"poold/internal/provider/wire"
)

// refusalEvery is the minimum interval between two log lines about equal refusals of one caller.
const refusalEvery = time.Minute

// unsupported returns the error for a call with a part that poold does not support. The call is
// refused, because the client may rely on that part.
func unsupported(what string) error {
	return &compat.Cause{Code: wire.CodeBadParams, Why: "poold does not support " + what}
}

// unreadable returns the error for a call that does not follow its protocol.
func unreadable(bad string) error {
	return &compat.Cause{Code: bad, Why: "the call is not well-formed, mixes the protocols, or gives a field twice"}
}

// invalid returns the error for an order with an invalid parameter.
func invalid(o wire.Submission) error {
	switch {
	case o.Bad == wire.CodeNoMethod, o.Bad == wire.CodeNotSupported:
		return &compat.Cause{Code: o.Bad, Why: compat.NotSupported.Why}
	case o.BadField == "":
		return &compat.Cause{Code: o.Bad, Why: "the parameters are missing, contradictory or not well-formed"}
	}
	return &compat.Cause{Code: o.Bad, Why: "the parameter " + o.BadField + " is missing or invalid"}
}

// displayName returns the name of a parameter for an error message, or a placeholder if the name is too
// long or has unusual characters.
func displayName(name string) string {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '|' }
	if len(name) > 40 || strings.ContainsFunc(name, odd) {
		return "of another name"
	}
	return name
}

// causeOf returns the cause of an error. It logs an unexpected error.
func (s *Server) causeOf(c *Context, err error) *compat.Cause {
	if failed := (*pool.FailedError)(nil); errors.As(err, &failed) {
		s.noteBudget(failed)
	}
	cause := compat.CauseOf(err)
	if cause == compat.NoSlot && c.Target != nil {
		if p := s.explainEmpty(c, &pool.EmptyError{}); p.Code != CodePoolEmpty {
			cause = &compat.Cause{Code: cause.Code, Why: p.Detail}
		}
	}
	if cause == compat.Broken {
		s.Log.ErrorContext(c.Ctx(), "client's call failed", slog.String("route", c.Path()), slog.Any("err", err))
	}
	return cause
}

// logRefusal logs a refused call and the reason that the client got. Passing conditions, such as an empty
// pool, and calls without a valid key are not logged.
func (s *Server) logRefusal(c *Context, cause *compat.Cause) {
	if cause.IsRefusal() && c.Caller != nil && s.refusals(logKey(c, cause.Error())) {
		s.Log.WarnContext(c.Ctx(), "client's call refused; correct the call, the key or the target",
			slog.String("key", c.Caller.Name), slog.String("route", c.Path()), slog.String("code", cause.Code),
			slog.String("err", cause.Why))
	}
}

// logKey identifies a log line of a caller. A short hash limits how many lines of one caller are remembered. If two
// lines have the same hash, one of them may be left out.
func logKey(c *Context, text string) string {
	return c.Caller.StableName + strconv.Itoa(int(crc32.ChecksumIEEE([]byte(text))%1024))
}

// noTarget returns the error for a submission that has no target and may not be bought. It names the
// first field in which the identity differs from all targets of the caller.
func noTarget(c *Context, id captcha.Identity, why string) error {
	var left []reflect.Value // the targets that have the same fields so far
	for i := range c.Access.Set.Targets {
		if t := &c.Access.Set.Targets[i]; c.Caller.MayUse(t.Name) {
			left = append(left, reflect.ValueOf(t.Identity))
		}
	}
	field := ""
	for i, v := 0, reflect.ValueOf(id); field == "" && i < v.NumField(); i++ {
		left = slices.DeleteFunc(left, func(t reflect.Value) bool { return !t.Field(i).Equal(v.Field(i)) })
		if len(left) == 0 {
			field = strings.TrimPrefix(v.Type().Field(i).Tag.Get("yaml"), ",inline")
		}
	}
	return &compat.Cause{Code: wire.CodeDomain, Why: "no target of this key matches (first difference: " + field + "); " +
		why}
}
