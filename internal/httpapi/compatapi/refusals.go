package compatapi

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/httpapi/kernel"
	"poold/internal/provider/wire"
)

const (
	// longestReason is the maximum length of an explanation that clients show, in characters.
	longestReason = 200
	// refusalEvery is the minimum interval between two log lines about equal refusals of one caller.
	refusalEvery = time.Minute
	// ignoredEvery is the minimum interval between two log lines about the same ignored parameter of
	// one caller.
	ignoredEvery = 24 * time.Hour
)

// fault is an error that the client can correct. Its code belongs to the legacy protocol.
type fault struct {
	code, why string
	fields    []string // the parameters, or the fields of an identity, that cause the error
	target    string   // the target that the client most likely means; "" = unknown
	page      string   // the submitted page, if it causes the error
}

// Error returns the code and the explanation.
func (f *fault) Error() string { return f.code + ": " + f.why }

// unsupported returns the error for a call with a part that poold does not support. The call is
// refused, because the client may rely on that part.
func unsupported(what string, fields ...string) error {
	return &fault{code: wire.CodeBadParams, why: "poold does not support " + what, fields: fields}
}

// unreadable returns the error for a call that does not follow its protocol.
func unreadable(bad string) error {
	return &fault{code: bad, why: "the call is not well-formed, mixes the protocols, or gives a field twice"}
}

// invalid returns the error for an order with an invalid parameter.
func invalid(o wire.Order) error {
	switch {
	case o.Bad == wire.CodeNoMethod, o.Bad == wire.CodeNotSupported:
		return &fault{code: o.Bad, why: compat.NotSupported.Why(), fields: []string{o.BadField}}
	case o.BadField == "":
		return &fault{code: o.Bad, why: "the parameters are missing, contradictory or not well-formed"}
	}
	return &fault{code: o.Bad, why: "the parameter " + o.BadField + " is missing or invalid", fields: []string{o.BadField}}
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

// codes contains the codes of an error in both protocols, and an explanation.
type codes struct{ legacy, tasks, why string }

// codesOf returns the codes of an error. It logs an unexpected error.
func (p *Routes) codesOf(ctx context.Context, c *kernel.Call, err error) codes {
	var bad *fault
	if errors.As(err, &bad) {
		return codes{bad.code, wire.TasksCode(bad.code), clip(bad.why)}
	}
	cause := compat.CauseOf(err)
	if cause == compat.Broken {
		p.Log.ErrorContext(ctx, "client's call failed", slog.String("route", c.Route.Path), slog.Any("err", err))
	}
	return codes{cause.Legacy(), cause.Tasks(), cause.Why()}
}

// clip shortens a text to longestReason characters.
func clip(text string) string {
	if runes := []rune(text); len(runes) > longestReason {
		return string(runes[:longestReason-1]) + "…"
	}
	return text
}

// logRefusal logs a refused call, the reason that the client got, and the fields that caused the
// refusal. It logs neither temporary conditions nor calls without a valid key.
func (p *Routes) logRefusal(ctx context.Context, c *kernel.Call, err error, says codes) {
	var bad *fault
	if !errors.As(err, &bad) {
		if !compat.CauseOf(err).IsRefusal() {
			return
		}
		bad = &fault{}
	}
	if c.Caller == nil {
		return
	}
	attrs := []slog.Attr{
		slog.String("key", c.Caller.Name), slog.String("route", c.Route.Path), slog.String("code", says.legacy), slog.String("err", says.why),
	}
	if bad.target != "" {
		attrs = append(attrs, slog.String("target", bad.target))
	}
	if len(bad.fields) > 0 {
		names := make([]string, len(bad.fields))
		for i, field := range bad.fields {
			names[i] = displayName(field)
		}
		attrs = append(attrs, slog.Any("fields", names))
	}
	if bad.page != "" {
		attrs = append(attrs, slog.String("pageurl", bad.page))
	}
	repeats, due := p.said.Due(c.Caller.StableName, says.legacy+says.why+bad.page, refusalEvery, c.Began)
	if !due {
		return
	}
	if repeats > 0 {
		attrs = append(attrs, slog.Int("repeats", repeats))
	}
	p.Log.LogAttrs(ctx, slog.LevelWarn, "client's call refused; correct the call, the key or the target", attrs...)
}

// noteIgnored logs the parameters of an accepted submission that have no effect.
func (p *Routes) noteIgnored(ctx context.Context, c *kernel.Call, ignored []string) {
	for _, name := range ignored {
		if _, due := p.said.Due(c.Caller.StableName, "ignored "+name, ignoredEvery, c.Began); due {
			p.Log.InfoContext(ctx, "client's parameter has no effect", slog.String("key", c.Caller.Name), slog.String("parameter", name))
		}
	}
}

// meant is the target that a client most likely means with a submission that has no target.
type meant struct {
	*kernel.Target // nil = none

	fields []string // the fields in which the submission differs from the target
	isNew  bool     // the first near miss with these differences
}

// meantTarget considers the targets that the caller may use. It returns the target that differs
// from an identity in the fewest fields. It counts the near misses of all targets.
func (p *Routes) meantTarget(c *kernel.Call, id captcha.Identity) (best meant) {
	for i := range c.Access.Set.Targets {
		t := &c.Access.Set.Targets[i]
		fields := compat.Differences(t.Identity, id)
		if fields == nil {
			continue
		}
		isNear := compat.IsNearMiss(t.Identity, id)
		isNew := isNear && p.NearMisses.Note(t.ID, fields, c.Began)
		better := best.Target == nil || len(fields) < len(best.fields) ||
			len(fields) == len(best.fields) && isNear && !compat.IsNearMiss(best.Identity, id)
		if better && c.Caller.MayUse(t.Name) {
			best = meant{c.Access.Targets[t.Name], fields, isNew}
		}
	}
	return best
}

// explain adds details to the refusal of a submission that has no target: the submitted page, the
// target that the client most likely means, and the differing fields.
func (m meant) explain(err error, id captcha.Identity) error {
	full := &fault{code: compat.NotAllowed.Legacy(), why: compat.NotAllowed.Why()}
	var bad *fault
	switch {
	case errors.As(err, &bad):
		*full = *bad
	case !errors.Is(err, compat.NotAllowed):
		return err
	}
	if page, _, hasQuery := strings.Cut(clip(id.Pageurl), "?"); hasQuery { // the query may contain secrets
		full.page = page + "?…"
	} else {
		full.page = page
	}
	if m.Target == nil {
		return full
	}
	other := strings.Join(m.fields, ", ")
	if m.Identity.Pageurl != id.Pageurl {
		other += " (" + m.Identity.Pageurl + ")"
	}
	full.why = "target " + m.Name + " has another " + other + "; " + full.why
	full.fields, full.target = m.fields, m.Name
	return full
}

// logNearMiss logs that a token is bought for a submission without a target, although the client
// most likely means a target.
func (p *Routes) logNearMiss(c *kernel.Call, m meant) {
	if m.isNew {
		p.Log.Warn("client's submit differs from a target in some fields and gets none of its tokens; make the fields equal", slog.String("target", m.Name),
			slog.Any("fields", m.fields), slog.String("key", c.Caller.Name))
	}
}
