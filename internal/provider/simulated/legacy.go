package simulated

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"poold/internal/provider/wire"
)

// legacyForm writes responses in the form (JSON or plain text) that a caller of in.php or res.php
// requested.
type legacyForm struct{ wire.Form }

// fail returns the answer with an error code.
func (f legacyForm) fail(code string) answer {
	why := ""
	if strings.HasPrefix(code, "ERROR") {
		why = "the simulated service refuses: " + code
	}
	return answerOf(f.Fail(code, why))
}

// parseLegacy parses a call of the legacy protocol.
func (s *Service) parseLegacy(r *http.Request) *query {
	sent, whole := readRequest(r)
	c := wire.ReadLegacy(sent)
	if !whole {
		c.Bad, c.Order.Bad = wire.CodeBadParams, wire.CodeBadParams
	}
	f := legacyForm{c.Form}
	q := &query{refuse: f.fail}
	if c.Action == Submit {
		o := order{
			identity: c.Order.Identity, bad: cmp.Or(s.keyError(c.Key), c.Order.Bad), legacy: true,
			ping: pingback{url: c.Order.Pingback, form: pingQuery},
		}
		if s.opts.Flavour == TwoCaptcha {
			o.ping.form = pingForm
		}
		numeric := s.opts.Flavour == CaptchaAI && wire.IsRecaptcha(o.identity.Type)
		q.accept = func(n int64) answer { return answerOf(f.Accept(n, numeric)) }
		s.setSubmission(q, o, f.fail)
		return q
	}
	q.Action, q.Task = c.Action, strings.Join(c.IDs, ",")
	if c.Bad != "" {
		q.Action = Other
	}
	q.run = func(at time.Time) answer {
		if code := cmp.Or(c.Bad, s.keyError(c.Key)); code != "" {
			return f.fail(code)
		}
		return s.result(f, c, at)
	}
	return q
}

// result executes a call of res.php.
func (s *Service) result(f legacyForm, c wire.LegacyCall, at time.Time) answer {
	switch {
	case c.Action == Poll && !c.Many:
		return s.getOne(f, c.IDs[0], at)
	case c.Action == Balance:
		return answerOf(f.Bare(strconv.FormatFloat(s.opts.Balance, 'f', -1, 64)))
	case c.Action == Report:
		if code := s.books.report(c.IDs[0], c.Verdict, at); code != "" {
			return f.fail(code)
		}
		return answerOf(f.Bare("OK_REPORT_RECORDED"))
	case c.Action == Threads && s.opts.Flavour == CaptchaAI:
		threads, working := cmp.Or(s.opts.Threads, manyThreads), s.books.read().InFlight
		return answerOf(wire.JSON(wire.ThreadsAnswer{
			Status: 1, Threads: threads, Working: working, Free: max(0, threads-working),
		}))
	case c.Word == "":
		return f.fail(wire.CodeEmptyAction)
	}
	return f.fail(wire.CodeBadParams)
}

func (s *Service) getOne(f legacyForm, id string, at time.Time) answer {
	n, ok := wire.TaskNumber(id)
	if !ok {
		return f.fail(wire.CodeIDFormat)
	}
	o := s.books.poll(n, at)
	if o.code != "" {
		return f.fail(o.code)
	}
	v := wire.LegacyAnswer{Status: 1, Request: o.token}
	if agent := s.opts.userAgent(&o.task); s.opts.Flavour == TwoCaptcha {
		v.Useragent = agent
		if values := o.task.namedValues(s.opts); values != nil {
			v.Request = values
		}
	} else {
		v.UserAgent = agent
	}
	return answerOf(f.Say("OK|"+o.token, v))
}
