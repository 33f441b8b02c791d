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

// legacy is the protocol of in.php and res.php. It asks for JSON and also reads plain text, because
// some services always send errors as plain text.
type legacy struct {
	key     captcha.Secret
	profile profile
}

// form returns a call. The key is in the body, never in the URL.
func (l legacy) form(path string, fields url.Values, read func([]byte) (answer, error)) query {
	fields.Set("key", l.key.Reveal())
	fields.Set("json", "1")
	return query{path: path, contentType: "application/x-www-form-urlencoded", body: fields.Encode(), read: read}
}

func (l legacy) submit(r Request) (query, error) {
	fields, err := wire.LegacyForm(r.Identity, r.Image, l.profile.name)
	if err != nil {
		return query{}, err
	}
	if r.Pingback != "" {
		fields.Set("pingback", r.Pingback)
	}
	return l.form("/in.php", fields, l.readSubmit), nil
}

func (l legacy) poll(task string, id captcha.Identity) query {
	return l.form("/res.php", url.Values{"action": {"get"}, "id": {task}}, func(reply []byte) (answer, error) {
		return l.readPoll(reply, id)
	})
}

func (l legacy) balance() query {
	return l.form("/res.php", url.Values{"action": {"getbalance"}}, l.readBalance)
}

// threads is a call that only captchaai has.
func (l legacy) threads() (query, bool) {
	if l.profile.name != captchaAI {
		return query{}, false
	}
	return l.form("/res.php", url.Values{"action": {"threadsinfo"}}, l.readThreads), true
}

func (l legacy) report(task string, _ captcha.Type, good bool) (query, bool) {
	action := "reportbad"
	if good {
		action = "reportgood"
	}
	return l.form("/res.php", url.Values{"action": {action}, "id": {task}}, l.readReport), true
}

// legacyReply is an answer of in.php or res.php in either form.
// encoding/json takes field names without regard to case.
type legacyReply struct {
	Status     json.RawMessage `json:"status"`
	Request    json.RawMessage `json:"request"`
	Result     json.RawMessage `json:"result"`
	UserAgent  json.RawMessage `json:"user_agent"`
	UserAgent2 json.RawMessage `json:"useragent"`
	Threads    json.RawMessage `json:"threads"`
}

func (l legacy) readSubmit(reply []byte) (answer, error) {
	r, a, err := l.parse(reply)
	if err != nil || a.code != "" {
		return a, err
	}
	return created(r.Request, a)
}

// readPoll finds the answer in `request`, or in `result`, which some services use for enterprise.
func (l legacy) readPoll(reply []byte, id captcha.Identity) (answer, error) {
	r, a, err := l.parse(reply)
	if err != nil || a.notReady || a.code != "" {
		return a, err
	}
	ua := cmp.Or(agent(r.UserAgent), agent(r.UserAgent2))
	switch {
	case captcha.HasNamed(id.Type):
		return solution(id.Type, cmp.Or(named(id.Type, r.Request, r.Result), besideStatus(id.Type, reply)), ua)
	case id.Type == captcha.Image: // digits may come as a number
		return solution(id.Type, cmp.Or(plain(r.Request), plain(r.Result)), ua)
	}
	first, second := quoted(r.Request), quoted(r.Result)
	if id.Enterprise && second != "" || first == "" {
		first = second
	}
	return solution(id.Type, first, ua)
}

// besideStatus returns named values that are fields of the reply itself as an object, or "".
func besideStatus(t captcha.Type, reply []byte) string {
	var whole json.RawMessage
	reply, err := sniff(reply)
	if err != nil || decode(reply, &whole) != nil {
		return ""
	}
	values := captcha.Named(t, string(whole))
	if values == nil {
		return ""
	}
	text, _ := json.Marshal(values) // a map of strings always marshals
	return string(text)
}

func (l legacy) readBalance(reply []byte) (answer, error) {
	// In plain text this answer has no OK| in front.
	if n, ok := finite(string(bytes.TrimSpace(reply))); ok {
		return answer{number: n}, nil
	}
	r, a, err := l.parse(reply)
	if err != nil || a.code != "" {
		return a, err
	}
	return amount(r.Request)
}

// readThreads accepts an answer without a status too.
func (l legacy) readThreads(reply []byte) (answer, error) {
	var bare legacyReply
	if decode(reply, &bare) == nil {
		if n, ok := finite(plain(bare.Threads)); ok {
			return answer{number: n}, nil
		}
	}
	if _, a, err := l.parse(reply); err != nil || a.code != "" {
		return a, err
	}
	// A proper answer without a count does not mean that the service is down.
	return answer{number: -1}, nil
}

// readReport knows the plain OK_REPORT_RECORDED, which only reports have.
func (l legacy) readReport(reply []byte) (answer, error) {
	if bytes.HasPrefix(bytes.TrimSpace(reply), []byte("OK")) {
		return answer{}, nil
	}
	_, a, err := l.parse(reply)
	return reported(a, err)
}

// parse reads a reply of either form. It sets code or notReady in the answer, or none of them
// if the call was granted.
func (l legacy) parse(reply []byte) (legacyReply, answer, error) {
	reply, err := sniff(reply)
	if err != nil {
		return legacyReply{}, answer{}, err
	}
	var r legacyReply
	if reply[0] == '{' {
		if err := decode(reply, &r); err != nil {
			return r, answer{}, err
		}
		switch strings.Trim(string(r.Status), `"`) {
		case "1", "true":
			if word := plain(r.Request); l.isWord(word) {
				return r, refusal(word), nil
			}
			return r, answer{}, nil
		case "0", "false":
			if word := plain(r.Request); word != "" {
				return r, refusal(word), nil
			}
		}
		return r, answer{}, oddReply
	}
	text := string(reply)
	if granted, ok := strings.CutPrefix(text, "OK|"); ok {
		r.Request, err = json.Marshal(granted)
		return r, answer{}, err
	}
	if l.isWord(text) {
		return r, refusal(text), nil
	}
	return r, answer{}, oddReply
}

// isWord reports whether plain text is one of the protocol's refusals. Other texts, such as "Bad
// gateway", must not count as refusals, because the task may have been bought.
func (l legacy) isWord(text string) bool {
	if strings.ContainsAny(text, "\r\n<") {
		return false
	}
	if isNotReady(text) || strings.HasPrefix(text, "ERROR_") || strings.HasPrefix(text, "ERROR:") {
		return true
	}
	_, _, known := l.profile.fault(text)
	return known || isLink(text)
}

func refusal(word string) answer {
	if isNotReady(word) {
		return answer{notReady: true}
	}
	return answer{code: word}
}

// isNotReady accepts the protocol's misspelling (CAPCHA) and the right spelling.
func isNotReady(word string) bool {
	return word == "CAPCHA_NOT_READY" || word == "CAPTCHA_NOT_READY"
}
