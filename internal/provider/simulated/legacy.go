package simulated

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// legacyForm is how one caller of in.php and res.php wants its answers.
type legacyForm struct{ json, cors bool }

// legacyAnswer is the JSON shape; the fields are in the order of the wire.
type legacyAnswer struct {
	Status    int    `json:"status"`
	Request   any    `json:"request,omitempty"`
	Result    string `json:"result,omitempty"`     // instead of request, for enterprise
	UserAgent string `json:"user_agent,omitempty"` // captchaai's spelling
	Useragent string `json:"useragent,omitempty"`  // 2captcha's
	Price     string `json:"price,omitempty"`
	ErrorText string `json:"error_text,omitempty"`
}

// say renders an answer that is one text in plain form and v in JSON.
func (f legacyForm) say(text string, v any) answer {
	a := answer{kind: plainText, body: []byte(text)}
	if f.json {
		a = jsonAnswer(v)
	}
	a.cors = f.cors
	return a
}

// fail renders a code.
func (f legacyForm) fail(code string) answer {
	v := legacyAnswer{Request: code}
	if strings.HasPrefix(code, "ERROR") {
		v.ErrorText = "the simulated service refuses: " + code
	}
	return f.say(code, v)
}

// bare renders values that plain text gives without "OK|".
func (f legacyForm) bare(text string) answer {
	return f.say(text, legacyAnswer{Status: 1, Request: text})
}

// number renders a submit's id.
func (f legacyForm) number(n int64, numeric bool) answer {
	id := strconv.FormatInt(n, 10)
	v := legacyAnswer{Status: 1, Request: id}
	if numeric {
		v.Request = n
	}
	return f.say("OK|"+id, v)
}

// legacy is the protocol of in.php and res.php.
type legacy struct{ account }

// parse reads a call.
func (l *legacy) parse(r *http.Request) *query {
	v, err := legacyValues(r)
	f := legacyForm{json: v.Get("json") == "1", cors: v.Get("header_acao") == "1"}
	q := &query{refuse: f.fail}
	if r.URL.Path == "/in.php" {
		l.parseIn(q, f, v, err != nil)
		return q
	}
	q.Action, q.Task = Other, v.Get("id")
	run := func(time.Time) answer { return f.fail(codeBadParams) }
	if err == nil {
		q.Action, run = l.resAction(f, v)
	}
	if ids := v.Get("ids"); q.Action == Poll && ids != "" {
		q.Task = ids
	}
	q.run = func(at time.Time) answer {
		l.books.polled(at)
		return run(at)
	}
	return q
}

// legacyValues merges the query with a form, a multipart form or a JSON object.
// What could be read is returned also beside an error.
func legacyValues(r *http.Request) (url.Values, error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.Method == http.MethodPost && kind == "application/json":
		values := r.URL.Query()
		var fields map[string]any
		d := json.NewDecoder(r.Body)
		d.UseNumber() // so that 0.30 and 10-digit ids stay as they were written
		if err := d.Decode(&fields); err != nil {
			return values, fmt.Errorf("reading the body: %w", err)
		}
		for name, value := range fields {
			switch value := value.(type) {
			case nil:
			case bool:
				values.Set(name, map[bool]string{false: "0", true: "1"}[value])
			default:
				values.Set(name, fmt.Sprint(value))
			}
		}
		return values, nil
	case kind == "multipart/form-data":
		// The body is shorter than this, so no part of it goes to a file.
		err := r.ParseMultipartForm(maxBody)
		return r.Form, err
	default:
		err := r.ParseForm()
		return r.Form, err
	}
}

func (l *legacy) parseIn(q *query, f legacyForm, v url.Values, unreadable bool) {
	o := order{key: v.Get("key"), legacy: true, ping: pingback{url: v.Get("pingback")}}
	o.identity, o.bad = legacyIdentity(v, l.opts.Flavour)
	if unreadable || (o.ping.url != "" && !isWebURL(o.ping.url)) {
		o.bad = codeBadParams
	}
	o.ping.form = pingQuery
	if l.opts.Flavour == TwoCaptcha {
		o.ping.form = pingForm
	}
	recaptcha := isRecaptcha(o.identity.Type)
	q.accept = func(n int64) answer { return f.number(n, l.opts.NumericIDs && recaptcha) }
	l.submits(q, o, f.fail)
}

// resAction finds what a call of res.php wants.
func (l *legacy) resAction(f legacyForm, v url.Values) (Action, func(time.Time) answer) {
	key, action := v.Get("key"), v.Get("action")
	admitted := func(do func() answer) func(time.Time) answer {
		return func(at time.Time) answer {
			if code := l.books.admit(key, at); code != "" {
				return f.fail(code)
			}
			return do()
		}
	}
	switch action {
	case "get", "get2":
		if ids := v.Get("ids"); ids != "" && action == "get" {
			return Poll, func(at time.Time) answer { return l.getMany(f, key, ids, at) }
		}
		return Poll, func(at time.Time) answer { return l.getOne(f, key, v.Get("id"), action == "get2", at) }
	case "getbalance":
		return Balance, admitted(func() answer { return f.bare(strconv.Itoa(balance)) })
	case "reportgood", "reportbad":
		verdict := verdict{key: key, id: v.Get("id"), word: strings.TrimPrefix(action, "report")}
		return Report, func(at time.Time) answer {
			if code := l.books.report(verdict, at); code != "" {
				return f.fail(code)
			}
			return f.bare("OK_REPORT_RECORDED")
		}
	case "threadsinfo":
		// Where it is not offered it is as unknown as any other word.
		if l.opts.Flavour == CaptchaAI && l.opts.Threads > 0 {
			return Threads, admitted(func() answer { return l.threads(f) })
		}
		return Threads, admitted(func() answer { return f.fail(codeBadParams) })
	case "":
		return Other, admitted(func() answer { return f.fail("ERROR_EMPTY_ACTION") })
	}
	return Other, admitted(func() answer { return f.fail(codeBadParams) })
}

// taskNumber reads an id, which must be digits.
func taskNumber(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n > 0 && text[0] != '+'
}

func (l *legacy) getOne(f legacyForm, key, id string, priced bool, at time.Time) answer {
	n, ok := taskNumber(id)
	found, code := l.books.poll(key, []int64{n}, at)
	switch {
	case code != "":
		return f.fail(code)
	case !ok:
		return f.fail(codeIDFormat)
	case found[0].code != "":
		return f.fail(found[0].code)
	}
	o := &found[0]
	v := legacyAnswer{Status: 1, Request: o.token}
	values := o.task.values(l.opts)
	switch {
	case values != nil && l.opts.Shape == ShapeFields:
		return f.say("OK|"+o.token, besideStatus(values, l.opts.userAgent(&o.task)))
	case values != nil && l.opts.Shape == ShapeObject:
		v.Request = values
	case l.opts.EnterpriseInResult && o.task.identity.Enterprise:
		v.Request, v.Result = nil, o.token
	}
	if agent := l.opts.userAgent(&o.task); l.opts.Flavour == TwoCaptcha {
		v.Useragent = agent
	} else {
		v.UserAgent = agent
	}
	if priced {
		v.Price = price
		return f.say("OK|"+o.token+"|"+price, v)
	}
	return f.say("OK|"+o.token, v)
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
func (l *legacy) getMany(f legacyForm, key, ids string, at time.Time) answer {
	list := strings.Split(ids, ",")
	numbers := make([]int64, len(list))
	wellFormed := true
	for i, id := range list {
		var ok bool
		numbers[i], ok = taskNumber(id)
		wellFormed = wellFormed && ok
	}
	if !wellFormed {
		numbers = nil // the key is judged first, but nothing is collected
	}
	found, code := l.books.poll(key, numbers, at)
	switch {
	case code != "":
		return f.fail(code)
	case !wellFormed:
		return f.fail(codeIDFormat)
	}
	values := make([]string, len(found))
	for i, o := range found {
		values[i] = o.code + o.token // one of them is empty
	}
	return f.bare(strings.Join(values, "|"))
}

// threads tells the plan. There is no plain-text form of it.
func (l *legacy) threads(f legacyForm) answer {
	working := l.books.read().InFlight
	a := jsonAnswer(struct {
		Status  int `json:"status"`
		Threads int `json:"threads"`
		Working int `json:"working_threads"`
		Free    int `json:"free_threads"`
	}{1, l.opts.Threads, working, l.opts.Threads - working})
	a.cors = f.cors
	return a
}
