package simulated

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"poold/internal/provider/wire"
)

// legacyFail returns the answer with an error code of the legacy protocol.
func legacyFail(f wire.Form, code string) wire.Reply {
	why := ""
	if strings.HasPrefix(code, "ERROR") {
		why = refusal + code
	}
	return f.Fail(code, why)
}

// legacyCall executes a call of in.php or res.php.
func (s *Service) legacyCall(c wire.LegacyCall, incomplete string, at time.Time) wire.Reply {
	f := c.Form
	bad := cmp.Or(incomplete, c.Bad, s.keyError(c.Key))
	if c.Action == wire.Submit {
		t, code := s.sell(c.Order.Identity, true, cmp.Or(s.keyError(c.Key), incomplete, c.Order.Bad), at)
		if code != "" {
			return legacyFail(f, code)
		}
		return f.Accept(t.Number, s.opts.Flavour == CaptchaAI && wire.IsRecaptcha(t.Identity.Type))
	}
	switch {
	case bad != "":
		return legacyFail(f, bad)
	case c.Action == wire.Poll && !c.Many:
		return s.getOne(f, c.IDs[0], at)
	case c.Action == wire.Balance:
		return f.Bare(strconv.FormatFloat(s.opts.Balance, 'f', -1, 64))
	case c.Action == wire.Report:
		if code := s.report(c.IDs[0], c.Verdict, at); code != "" {
			return legacyFail(f, code)
		}
		return f.Bare("OK_REPORT_RECORDED")
	case c.Action == wire.Threads && s.opts.Flavour == CaptchaAI:
		s.mu.Lock()
		defer s.mu.Unlock()
		threads, working := cmp.Or(s.opts.Threads, manyThreads), s.workingLocked(at)
		return wire.JSON(wire.ThreadsAnswer{Status: 1, Threads: threads, Working: working, Free: max(0, threads-working)})
	case c.Word == "":
		return legacyFail(f, wire.CodeEmptyAction)
	}
	return legacyFail(f, wire.CodeBadParams)
}

func (s *Service) getOne(f wire.Form, id string, at time.Time) wire.Reply {
	n, ok := wire.TaskNumber(id)
	if !ok {
		return legacyFail(f, wire.CodeIDFormat)
	}
	t, code := s.poll(n, at)
	if code != "" {
		return legacyFail(f, code)
	}
	token := s.Token(t)
	v := wire.LegacyAnswer{Status: 1, Request: token}
	if agent := s.opts.userAgent(t); s.opts.Flavour == TwoCaptcha {
		v.Useragent = agent
		if values := t.namedValues(s.opts); values != nil {
			v.Request = values
		}
	} else {
		v.UserAgent = agent
	}
	return f.Say("OK|"+token, v)
}
