package simulated

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// constant is a lead time without chance.
var constant = Options{Seed: 1, Median: 10 * time.Second}

// with returns constant, changed.
func with(change func(*Options)) Options {
	o := constant
	change(&o)
	return o
}

func TestLegacySubmitIsStrict(t *testing.T) {
	for name, c := range map[string]struct {
		query string
		want  string
	}{
		"no key":              {recaptcha("key", ""), "ERROR_WRONG_USER_KEY"},
		"unknown key":         {recaptcha("key", "other"), "ERROR_KEY_DOES_NOT_EXIST"},
		"key before params":   {recaptcha("key", "other", "pageurl", ""), "ERROR_KEY_DOES_NOT_EXIST"},
		"no method":           {recaptcha("method", ""), "ERROR_BAD_PARAMETERS"},
		"unknown method":      {recaptcha("method", "rotate"), "ERROR_BAD_PARAMETERS"},
		"no googlekey":        {recaptcha("googlekey", ""), "ERROR_GOOGLEKEY"},
		"malformed googlekey": {recaptcha("googlekey", "a b"), "ERROR_GOOGLEKEY"},
		"no pageurl":          {recaptcha("pageurl", ""), "ERROR_PAGEURL"},
		"relative pageurl":    {recaptcha("pageurl", "/login"), "ERROR_PAGEURL"},
		"other scheme":        {recaptcha("pageurl", "ftp://example.com/"), "ERROR_PAGEURL"},
		"no sitekey":          {recaptcha("method", "turnstile"), "ERROR_BAD_PARAMETERS"},
		"odd flag":            {recaptcha("invisible", "true"), "ERROR_BAD_PARAMETERS"},
		"odd version":         {recaptcha("version", "v4"), "ERROR_BAD_PARAMETERS"},
		"score is no number":  {recaptcha("version", "v3", "min_score", "high"), "ERROR_BAD_PARAMETERS"},
		"score out of range":  {recaptcha("version", "v3", "min_score", "1.5"), "ERROR_BAD_PARAMETERS"},
		"proxy without port":  {recaptcha("proxy", "192.0.2.1", "proxytype", "HTTP"), "ERROR_BAD_PROXY"},
		"proxy without type":  {recaptcha("proxy", "192.0.2.1:80"), "ERROR_BAD_PROXY"},
		"proxy user alone":    {recaptcha("proxy", "u@192.0.2.1:80", "proxytype", "HTTP"), "ERROR_BAD_PROXY"},
		"type without proxy":  {recaptcha("proxytype", "HTTP"), "ERROR_BAD_PARAMETERS"},
		"pingback is no URL":  {recaptcha("pingback", "example.com"), "ERROR_BAD_PARAMETERS"},
		"broken escape":       {recaptcha() + "&x=%zz", "ERROR_BAD_PARAMETERS"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(with(func(o *Options) { o.Key = "k" }))
			want(t, "plain", get(t, s, c.query), c.want)
			v := decode(t, get(t, s, c.query+"&json=1"))
			want(t, "json status", v["status"], any(0.0))
			want(t, "json request", v["request"], any(c.want))
			totals := s.Totals()
			want(t, "submitted", totals.Submitted, 0)
			want(t, "refused", totals.Refused, 2)
		})
	}
	s := New(Options{Flavour: TwoCaptcha})
	want(t, "2captcha's word", get(t, s, recaptcha("method", "rotate")), "ERROR_NO_SUCH_METHOD")
}

// The life of a task in the words of the protocol.
func TestLegacyLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(with(func(o *Options) { o.Ledger = true }))
		id := buy(t, s)
		time.Sleep(10*time.Second - time.Millisecond)
		want(t, "early", poll(t, s, id), "CAPCHA_NOT_READY")
		v := decode(t, get(t, s, "/res.php?key=k&action=get&json=1&id="+id))
		want(t, "early, status", v["status"], any(0.0))
		want(t, "early, request", v["request"], any("CAPCHA_NOT_READY"))
		want(t, "early, text", v["error_text"], nil)

		time.Sleep(time.Millisecond)
		sale := s.Sold()[0]
		want(t, "plain", poll(t, s, id), "OK|"+sale.Token)
		v = decode(t, get(t, s, "/res.php?key=k&action=get&json=1&id="+id))
		want(t, "json", v["request"], any(sale.Token))
		want(t, "no user agent", v["user_agent"], nil)
		want(t, "get2", get(t, s, "/res.php?key=k&action=get2&id="+id), "OK|"+sale.Token+"|0.00299")

		want(t, "report", get(t, s, "/res.php?key=k&action=reportbad&id="+id), "OK_REPORT_RECORDED")
		want(t, "again", get(t, s, "/res.php?key=k&action=reportgood&id="+id), "ERROR_DUPLICATE_REPORT")
		want(t, "report in the ledger", s.Sold()[0].Report, "bad")

		// Forgotten five minutes after it was due, to the callers; never in the ledger.
		time.Sleep(DefaultKeep - time.Nanosecond)
		want(t, "old", poll(t, s, id), "OK|"+sale.Token)
		time.Sleep(time.Nanosecond)
		want(t, "too old", poll(t, s, id), "ERROR_WRONG_CAPTCHA_ID")
		want(t, "sales", len(s.Sold()), 1)
	})
}

func TestLegacyResultActions(t *testing.T) {
	s := New(with(func(o *Options) { o.Key = "k"; o.Threads = 3 }))
	id := buy(t, s)
	for name, c := range map[string]struct{ query, want string }{
		"no key":               {"action=get&id=" + id, "ERROR_WRONG_USER_KEY"},
		"unknown key":          {"key=x&action=get&id=" + id, "ERROR_KEY_DOES_NOT_EXIST"},
		"unknown key, balance": {"key=x&action=getbalance", "ERROR_KEY_DOES_NOT_EXIST"},
		"unknown key, report":  {"key=x&action=reportbad&id=" + id, "ERROR_KEY_DOES_NOT_EXIST"},
		"no action":            {"key=k&id=" + id, "ERROR_EMPTY_ACTION"},
		"unknown action":       {"key=k&action=dance", "ERROR_BAD_PARAMETERS"},
		"no id":                {"key=k&action=get", "ERROR_WRONG_ID_FORMAT"},
		"odd id":               {"key=k&action=get&id=12a", "ERROR_WRONG_ID_FORMAT"},
		"signed id":            {"key=k&action=get&id=%2B12", "ERROR_WRONG_ID_FORMAT"},
		"unknown id":           {"key=k&action=get&id=12", "ERROR_WRONG_CAPTCHA_ID"},
		"odd ids":              {"key=k&action=get&ids=" + id + ",x", "ERROR_WRONG_ID_FORMAT"},
		"ids":                  {"key=k&action=get&ids=" + id + ",12", "CAPCHA_NOT_READY|ERROR_WRONG_CAPTCHA_ID"},
		"balance":              {"key=k&action=getbalance", "600"},
		"balance in json":      {"key=k&action=getbalance&json=1", `{"status":1,"request":"600"}`},
		"early report":         {"key=k&action=reportbad&id=" + id, "REPORT_NOT_RECORDED"},
		"report of nothing":    {"key=k&action=reportbad&id=12", "ERROR_WRONG_CAPTCHA_ID"},
		"odd report":           {"key=k&action=reportbad&id=x", "ERROR_WRONG_ID_FORMAT"},
		"threads": {
			"key=k&action=threadsinfo&json=1",
			`{"status":1,"threads":3,"working_threads":1,"free_threads":2}`,
		},
	} {
		t.Run(name, func(t *testing.T) { want(t, "answer", get(t, s, "/res.php?"+c.query), c.want) })
	}
	want(t, "2captcha has no threadsinfo",
		get(t, New(Options{Flavour: TwoCaptcha, Threads: 3}), "/res.php?key=k&action=threadsinfo"),
		"ERROR_BAD_PARAMETERS")
}

func TestLegacyManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(with(func(o *Options) { o.Ledger = true }))
		a, b := buy(t, s), buy(t, s)
		time.Sleep(constant.Median)
		c := buy(t, s)
		sold := s.Sold()
		joined := sold[1].Token + "|CAPCHA_NOT_READY|" + sold[0].Token
		ids := strings.Join([]string{b, c, a}, ",")
		want(t, "plain", get(t, s, "/res.php?key=k&action=get&ids="+ids), joined)
		v := decode(t, get(t, s, "/res.php?key=k&action=get&json=1&ids="+ids))
		want(t, "json", v["request"], any(joined))
		want(t, "report", get(t, s, "/res.php?key=k&action=reportgood&id="+b), "OK_REPORT_RECORDED")
		want(t, "report in the ledger", s.Sold()[1].Report, "good")
	})
}

func TestLegacyVariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(with(func(o *Options) {
			o.NumericIDs, o.EnterpriseInResult, o.UserAgent = true, true, "Browser/1"
		}))
		turnstile := []string{"json", "1", "method", "turnstile", "sitekey", "1x00000000000000000000AA"}
		v := decode(t, get(t, s, recaptcha("json", "1", "enterprise", "1", "userAgent", "Asked/2")))
		number, numeric := v["request"].(float64)
		want(t, "reCAPTCHA's id is a number", numeric, true)
		_, text := decode(t, get(t, s, recaptcha(turnstile...)))["request"].(string)
		want(t, "Turnstile's id is a text", text, true)

		time.Sleep(constant.Median)
		enterprise := poll(t, s, number2text(number))
		v = decode(t, get(t, s, "/res.php?key=k&action=get&json=1&id="+number2text(number)))
		want(t, "token", "OK|"+v["result"].(string), enterprise)
		want(t, "request", v["request"], nil)
		want(t, "user agent", v["user_agent"], any("Asked/2"))
	})
	synctest.Test(t, func(t *testing.T) {
		s := New(with(func(o *Options) { o.Flavour, o.UserAgent = TwoCaptcha, "Browser/1" }))
		id := buy(t, s)
		time.Sleep(constant.Median)
		v := decode(t, get(t, s, "/res.php?key=k&action=get&json=1&id="+id))
		want(t, "2captcha's user agent", v["useragent"], any("Browser/1"))
	})
}

func TestCrossOriginHeader(t *testing.T) {
	s := New(constant)
	for query, expected := range map[string]string{"": "", "&header_acao=1": "*"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, recaptcha()+query, nil))
		want(t, "header with "+query, w.Header().Get("Access-Control-Allow-Origin"), expected)
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	s := New(constant)
	for call, expected := range map[string]int{
		"GET /nothing": 404, "GET /ledger": 404, "PUT /in.php": 405, "GET /createTask": 405, "HEAD /res.php": 405,
	} {
		method, path, _ := strings.Cut(call, " ")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		want(t, call, w.Code, expected)
	}
	want(t, "counted as other", s.Totals().ByAction[Other], 5)
	want(t, "too long a body", ask(t, s, http.MethodPost, recaptcha(), "application/x-www-form-urlencoded",
		"x="+strings.Repeat("x", maxBody)), "ERROR_BAD_PARAMETERS")
}
