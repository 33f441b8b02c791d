package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"strings"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// inPHP implements the protocol with the paths in.php and res.php. Requests ask for JSON replies.
// Plain text is parsed too, because some services always send errors as plain text.
type inPHP struct {
	key     captcha.Secret
	profile profile
}

// form returns a call whose body contains these fields and the key. The key is never
// part of the URL.
func (l inPHP) form(path string, fields url.Values, read func([]byte) (answer, error)) query {
	fields.Set("key", l.key.Reveal())
	fields.Set("json", "1")
	return query{path: path, contentType: "application/x-www-form-urlencoded", body: fields.Encode(), read: read}
}

func (l inPHP) submit(r Request) (query, error) {
	fields, err := wire.LegacyForm(r.Identity, r.Image, l.profile.name)
	if err != nil {
		return query{}, err
	}
	if r.Pingback != "" {
		fields.Set("pingback", r.Pingback)
	}
	return l.form("/in.php", fields, l.readSubmit), nil
}

func (l inPHP) poll(task string, id captcha.Identity) query {
	return l.form("/res.php", url.Values{"action": {"get"}, "id": {task}}, func(reply []byte) (answer, error) {
		return l.readPoll(reply, id)
	})
}

func (l inPHP) balance() query {
	return l.form("/res.php", url.Values{"action": {"getbalance"}}, l.readBalance)
}

// threads returns the call threadsinfo, which only captchaai offers.
func (l inPHP) threads() (query, bool) {
	if l.profile.name != captchaAI {
		return query{}, false
	}
	return l.form("/res.php", url.Values{"action": {"threadsinfo"}}, l.readThreads), true
}

func (l inPHP) report(task string, _ captcha.Type, good bool) (query, bool) {
	action := "reportbad"
	if good {
		action = "reportgood"
	}
	return l.form("/res.php", url.Values{"action": {action}, "id": {task}}, l.readReport), true
}

// inPHPReply is a parsed reply of in.php or res.php, from JSON or from plain text. encoding/json
// ignores the case of field names.
type inPHPReply struct {
	Status     json.RawMessage `json:"status"`
	Request    json.RawMessage `json:"request"`
	Result     json.RawMessage `json:"result"`
	UserAgent  json.RawMessage `json:"user_agent"`
	UserAgent2 json.RawMessage `json:"useragent"`
	Threads    json.RawMessage `json:"threads"`
}

func (l inPHP) readSubmit(reply []byte) (answer, error) {
	r, a, err := l.parse(reply)
	if err != nil || a.code != "" {
		return a, err
	}
	return createdAnswer(r.Request, a)
}

// readPoll parses the reply to a poll. The solution is in the field `request`. Some services use
// the field `result` for enterprise CAPTCHAs.
func (l inPHP) readPoll(reply []byte, id captcha.Identity) (answer, error) {
	r, a, err := l.parse(reply)
	if err != nil || a.notReady || a.code != "" {
		return a, err
	}
	ua := cmp.Or(userAgent(r.UserAgent), userAgent(r.UserAgent2))
	switch {
	case captcha.HasNamed(id.Type):
		return solvedAnswer(id.Type, cmp.Or(namedValues(id.Type, r.Request, r.Result), besideStatus(id.Type, reply)), ua)
	case id.Type == captcha.Image: // a text of digits may come as a JSON number
		return solvedAnswer(id.Type, cmp.Or(textOrDigits(r.Request), textOrDigits(r.Result)), ua)
	}
	first, second := jsonText(r.Request), jsonText(r.Result)
	if id.Enterprise && second != "" || first == "" {
		first = second
	}
	return solvedAnswer(id.Type, first, ua)
}

// besideStatus handles a reply in which the named values of a solution are fields of the reply
// itself. It returns these values as a JSON object, or "" if the reply has no such fields.
func besideStatus(t captcha.Type, reply []byte) string {
	var whole json.RawMessage
	reply, err := trimReply(reply)
	if err != nil || decode(reply, &whole) != nil {
		return ""
	}
	values := captcha.Named(t, string(whole))
	if values == nil {
		return ""
	}
	text, _ := json.Marshal(values) // marshalling a map of strings cannot fail
	return string(text)
}

func (l inPHP) readBalance(reply []byte) (answer, error) {
	// A balance as plain text has no prefix "OK|".
	if n, ok := finite(string(bytes.TrimSpace(reply))); ok {
		return answer{number: n}, nil
	}
	r, a, err := l.parse(reply)
	if err != nil || a.code != "" {
		return a, err
	}
	return amountAnswer(r.Request)
}

// readThreads parses the reply to threadsinfo. The reply may have no status.
func (l inPHP) readThreads(reply []byte) (answer, error) {
	var bare inPHPReply
	if decode(reply, &bare) == nil {
		if n, ok := finite(textOrDigits(bare.Threads)); ok {
			return answer{number: n}, nil
		}
	}
	if _, a, err := l.parse(reply); err != nil || a.code != "" {
		return a, err
	}
	// A proper reply without a number of threads must not count toward an outage.
	return answer{number: -1}, nil
}

// readReport parses the reply to a report. In plain text the reply is OK_REPORT_RECORDED.
func (l inPHP) readReport(reply []byte) (answer, error) {
	if bytes.HasPrefix(bytes.TrimSpace(reply), []byte("OK")) {
		return answer{}, nil
	}
	_, a, err := l.parse(reply)
	return reportAnswer(a, err)
}

// parse parses a reply in JSON or in plain text. If the service refused the call, the answer has
// code or notReady set.
func (l inPHP) parse(reply []byte) (inPHPReply, answer, error) {
	reply, err := trimReply(reply)
	if err != nil {
		return inPHPReply{}, answer{}, err
	}
	var r inPHPReply
	if reply[0] == '{' {
		if err := decode(reply, &r); err != nil {
			return r, answer{}, err
		}
		switch strings.Trim(string(r.Status), `"`) {
		case "1", "true":
			if word := textOrDigits(r.Request); l.isErrorCode(word) {
				return r, refusal(word), nil
			}
			return r, answer{}, nil
		case "0", "false":
			if word := textOrDigits(r.Request); word != "" {
				return r, refusal(word), nil
			}
		}
		return r, answer{}, unexpectedReply
	}
	text := string(reply)
	if granted, ok := strings.CutPrefix(text, "OK|"); ok {
		r.Request, err = json.Marshal(granted)
		return r, answer{}, err
	}
	if l.isErrorCode(text) {
		return r, refusal(text), nil
	}
	return r, answer{}, unexpectedReply
}

// isErrorCode reports whether a reply in plain text is an error code of the protocol. Other texts,
// such as "Bad gateway", must not count as refusals, because the service may have accepted the
// task.
func (l inPHP) isErrorCode(text string) bool {
	if strings.ContainsAny(text, "\r\n<") {
		return false
	}
	if isNotReady(text) || strings.HasPrefix(text, "ERROR_") || strings.HasPrefix(text, "ERROR:") {
		return true
	}
	_, _, known := l.profile.meaning(text)
	return known || isLink(text)
}

func refusal(word string) answer {
	if isNotReady(word) {
		return answer{notReady: true}
	}
	return answer{code: word}
}

// isNotReady reports whether a code means that the task is not ready. It accepts the protocol's
// misspelling CAPCHA and the correct spelling.
func isNotReady(word string) bool {
	return word == "CAPCHA_NOT_READY" || word == "CAPTCHA_NOT_READY"
}
