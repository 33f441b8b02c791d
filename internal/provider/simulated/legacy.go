package simulated

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"poold/internal/provider/wire"
)

// legacyForm is how one caller of in.php and res.php wants its answers.
type legacyForm struct{ wire.Form }

// say is an answer in the caller's form.
func (f legacyForm) say(r wire.Reply) answer {
	a := answerOf(r)
	a.cors = f.CORS
	return a
}

// fail renders a code.
func (f legacyForm) fail(code string) answer {
	why := ""
	if strings.HasPrefix(code, "ERROR") {
		why = "the simulated service refuses: " + code
	}
	return f.say(f.Fail(code, why))
}

// parseLegacy reads a call of the legacy protocol.
func (s *Service) parseLegacy(r *http.Request) *query {
	sent, whole := request(r)
	c := wire.ReadLegacy(sent, s.opts.Flavour)
	if !whole {
		c.Bad, c.Order.Bad = wire.CodeBadParams, wire.CodeBadParams
	}
	f := legacyForm{c.Form}
	q := &query{refuse: f.fail}
	if c.Action == Submit {
		s.parseIn(q, f, c)
		return q
	}
	q.Action, q.Task = c.Action, strings.Join(c.IDs, ",")
	run := s.resAction(f, c)
	if c.Bad != "" {
		q.Action, run = Other, func(time.Time) answer { return f.fail(c.Bad) }
	}
	q.run = func(at time.Time) answer {
		s.books.polled(at)
		return run(at)
	}
	return q
}

func (s *Service) parseIn(q *query, f legacyForm, c wire.LegacyCall) {
	o := order{key: c.Key, identity: c.Order.Identity, bad: c.Order.Bad, legacy: true, ping: pingback{url: c.Order.Pingback}}
	o.ping.form = pingQuery
	if s.opts.Flavour == TwoCaptcha {
		o.ping.form = pingForm
	}
	recaptcha := wire.IsRecaptcha(o.identity.Type)
	q.accept = func(n int64) answer { return f.say(f.Accept(n, s.opts.NumericIDs && recaptcha)) }
	s.submits(q, o, f.fail)
}

// resAction carries out a call of res.php.
func (s *Service) resAction(f legacyForm, c wire.LegacyCall) func(time.Time) answer {
	admitted := func(do func() answer) func(time.Time) answer {
		return func(at time.Time) answer {
			if code := s.books.admit(c.Key, at); code != "" {
				return f.fail(code)
			}
			return do()
		}
	}
	switch c.Action {
	case Poll:
		if c.Many {
			return func(at time.Time) answer { return s.getMany(f, c.Key, c.IDs, at) }
		}
		return func(at time.Time) answer { return s.getOne(f, c.Key, c.IDs[0], c.Priced, at) }
	case Balance:
		return admitted(func() answer { return f.say(f.Bare(strconv.Itoa(balance))) })
	case Report:
		return func(at time.Time) answer {
			if code := s.books.report(c.Key, c.IDs[0], c.Verdict, at); code != "" {
				return f.fail(code)
			}
			return f.say(f.Bare("OK_REPORT_RECORDED"))
		}
	case Threads:
		// A service without it treats it as an unknown action.
		if s.opts.Flavour == CaptchaAI && s.opts.Threads > 0 {
			return admitted(func() answer { return s.threads(f) })
		}
	}
	if c.Word == "" {
		return admitted(func() answer { return f.fail(wire.CodeEmptyAction) })
	}
	return admitted(func() answer { return f.fail(wire.CodeBadParams) })
}

func (s *Service) getOne(f legacyForm, key, id string, priced bool, at time.Time) answer {
	n, ok := wire.TaskNumber(id)
	found, code := s.books.poll(key, []int64{n}, at)
	switch {
	case code != "":
		return f.fail(code)
	case !ok:
		return f.fail(wire.CodeIDFormat)
	case found[0].code != "":
		return f.fail(found[0].code)
	}
	o := &found[0]
	v := wire.LegacyAnswer{Status: 1, Request: o.token}
	values := o.task.values(s.opts)
	switch {
	case values != nil && s.opts.Shape == ShapeFields:
		return f.say(f.Say("OK|"+o.token, besideStatus(values, s.opts.userAgent(&o.task))))
	case values != nil && s.opts.Shape == ShapeObject:
		v.Request = values
	case s.opts.EnterpriseInResult && o.task.identity.Enterprise:
		v.Request, v.Result = nil, o.token
	}
	if agent := s.opts.userAgent(&o.task); s.opts.Flavour == TwoCaptcha {
		v.Useragent = agent
	} else {
		v.UserAgent = agent
	}
	if priced {
		v.Price = price
		return f.say(f.Say("OK|"+o.token+"|"+price, v))
	}
	return f.say(f.Say("OK|"+o.token, v))
}

// besideStatus is an answer whose values are its own fields.
func besideStatus(values map[string]string, agent string) map[string]any {
	v := map[string]any{"status": 1, "user_agent": agent}
	for name, value := range values {
		v[name] = value
	}
	return v
}

// getMany answers several ids at once: bare values in the order of the ids.
func (s *Service) getMany(f legacyForm, key string, ids []string, at time.Time) answer {
	numbers := make([]int64, len(ids))
	wellFormed := true
	for i, id := range ids {
		var ok bool
		numbers[i], ok = wire.TaskNumber(id)
		wellFormed = wellFormed && ok
	}
	if !wellFormed {
		numbers = nil // the key is judged first, but nothing is collected
	}
	found, code := s.books.poll(key, numbers, at)
	switch {
	case code != "":
		return f.fail(code)
	case !wellFormed:
		return f.fail(wire.CodeIDFormat)
	}
	values := make([]string, len(found))
	for i, o := range found {
		values[i] = o.code + o.token // one of them is empty
	}
	return f.say(f.Bare(strings.Join(values, "|")))
}

// threads answers with the plan, always in JSON.
func (s *Service) threads(f legacyForm) answer {
	working := s.books.read().InFlight
	return f.say(wire.JSON(wire.ThreadsAnswer{
		Status: 1, Threads: s.opts.Threads, Working: working, Free: s.opts.Threads - working,
	}))
}
