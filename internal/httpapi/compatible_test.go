package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/targets"
	"poold/internal/testkit"
)

const isForm = "Content-Type: application/x-www-form-urlencoded"

// inPHPSubmit returns the path of an in_php call that submits a target's identity.
func inPHPSubmit(key, target string, more ...string) string {
	return "/in.php?key=" + key + "&method=userrecaptcha&googlekey=6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI&pageurl=" +
		url.QueryEscape("https://"+target+".example.com/") + strings.Join(more, "")
}

// createTaskSubmit returns the body of a call of the protocol create_task that submits a target's identity.
func createTaskSubmit(key, target, more string) string {
	return fmt.Sprintf(`{"clientKey":%q,"task":{"type":"RecaptchaV2TaskProxyless",`+
		`"websiteKey":"6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI","websiteURL":"https://%s.example.com/"%s}}`,
		key, target, more)
}

// eachCase calls a function with each line of a file in testdata, and with the indented line below, which says what is
// wanted.
func eachCase(t *testing.T, file string, do func(input, want string)) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	testkit.NoError(t, err)
	for pair := range slices.Chunk(strings.Split(strings.TrimSpace(string(text)), "\n"), 2) {
		do(pair[0], strings.TrimPrefix(pair[1], "\t"))
	}
}

// callInPHP sends a call of the protocol in_php, checks the HTTP status 200 and returns the text
// of the reply.
func (d *daemon) callInPHP(t *testing.T, path string) string {
	t.Helper()
	a := d.ask(t, "GET", path)
	if a.status != 200 || a.header.Get("Content-Type") == "" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: %d %v", path, a.status, a.header)
	}
	return a.body
}

// submitted returns the id, or the token, in the reply to a call of the protocol in_php.
func (d *daemon) submitted(t *testing.T, path string) string {
	t.Helper()
	text, ok := strings.CutPrefix(d.callInPHP(t, path), "OK|")
	testkit.Equal(t, path+": success", ok, true)
	return text
}

// callCreateTask sends a call of the protocol create_task and returns the reply.
func (d *daemon) callCreateTask(t *testing.T, path, body string) (v map[string]any) {
	t.Helper()
	a := d.send(t, "POST", path, strings.NewReader(body), "Content-Type: text/plain")
	if err := json.Unmarshal([]byte(a.body), &v); err != nil || a.status != 200 ||
		!strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
		t.Errorf("%s: %d %q, %v", path, a.status, a.body, err)
	}
	return v
}

// TestInPHPClientGetsAPooledToken: a client of the protocol in_php gets a pooled token at its
// first poll and reports on the token: as text and as JSON, by GET and by POST.
func TestInPHPClientGetsAPooledToken(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "checkout", 3)
	id := d.submitted(t, inPHPSubmit(keyAll, "checkout"))
	second := d.submitted(t, inPHPSubmit(keyAll, "checkout", "&json=0"))
	testkit.Equal(t, "length of an id", len(id), 11)
	res := "/res.php?action=get&key=" + keyAll
	testkit.Equal(t, "another caller", d.callInPHP(t, "/res.php?action=get&key="+keyStaging+"&id="+id),
		"ERROR_WRONG_CAPTCHA_ID")
	token := d.submitted(t, res+"&id="+id)
	testkit.Equal(t, "the prefix of the token", strings.TrimRight(token, "-o0123456789"), tokenValue)
	named := strings.NewReplacer("{key}", keyAll, "{other}", second, "{id}", id, "{token}", token)
	eachCase(t, "in_php.txt", func(path, want string) {
		testkit.Equal(t, path, d.callInPHP(t, named.Replace(path)), named.Replace(want))
	})
	testkit.Equal(t, "too many ids", d.callInPHP(t, res+"&ids=1"+strings.Repeat(",1", mostIDs)), "ERROR_BAD_PARAMETERS")
	_, form, _ := strings.Cut(inPHPSubmit(keyAll, "checkout", "&json=1"), "?")
	for _, c := range []struct{ kind, body, want string }{
		{isForm, form, `{"status":1,"request":"`}, {isForm, "%", "ERROR_BAD_PARAMETERS"},
		{isJSON, "no object", "ERROR_BAD_PARAMETERS"}, {"Content-Type: multipart/form-data", "x", "ERROR_BAD_PARAMETERS"},
	} {
		if a := d.send(t, "POST", "/in.php", strings.NewReader(c.body), c.kind); !strings.HasPrefix(a.body, c.want) {
			t.Errorf("%s: %d %s, want %s", c.kind, a.status, a.body, c.want)
		}
	}
	if s := d.stock.readStock(t, d.target("checkout")); s.Requests() != 1 || s.Counters.Accepted != 1 {
		t.Errorf("not one request and one good report: %+v", s.Counters)
	}
}

// A client of CapSolver wants the id of its task as text, also in each reply to a poll.
func TestCreateTaskClientWithTextIDs(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	id := d.callCreateTask(t, "/createTask",
		strings.Replace(createTaskSubmit(keyAll, "checkout", ""), "Proxyless", "ProxyLess", 1))["taskId"]
	for _, status := range []string{"processing", "ready"} {
		got := d.callCreateTask(t, "/getTaskResult", fmt.Sprintf(`{"clientKey":%q,"taskId":%q}`, keyAll, id))
		testkit.Equal(t, "the id in the reply", got["taskId"], id)
		testkit.Equal(t, "the status", got["status"], any(status))
		d.fill(t, "checkout", 1)
	}
}

// TestCreateTaskClientGetsAPooledToken: a client of the protocol create_task gets a pooled token at its first
// poll. The times in the reply show the age of the token.
func TestCreateTaskClientGetsAPooledToken(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.stock.landToken(t, d.stock.order(t, d.target("checkout")), 50*time.Second)
	made := d.callCreateTask(t, "/createTask", createTaskSubmit(keyAll, "checkout", ""))
	id, ok := made["taskId"].(float64)
	if !ok || id < 1e10 {
		t.Fatalf("%v", made)
	}
	ask := func(path string, id any) map[string]any {
		t.Helper()
		body, err := json.Marshal(map[string]any{"clientKey": keyAll, "taskId": id})
		testkit.NoError(t, err)
		return d.callCreateTask(t, path, string(body))
	}
	for _, as := range []any{int64(id), fmt.Sprint(int64(id))} {
		got := ask("/getTaskResult", as)
		solution, _ := got["solution"].(map[string]any)
		token, _ := solution["gRecaptchaResponse"].(string)
		created, _ := got["createTime"].(float64)
		ended, _ := got["endTime"].(float64)
		if got["status"] != "ready" || got["errorId"] != 0.0 || !strings.HasPrefix(token, tokenValue) || created-ended < 50 ||
			created-ended > 60 {
			t.Errorf("task %v is not ready with its token and times: %v", as, got)
		}
	}
	for range 2 {
		testkit.Equal(t, "a report", ask("/reportIncorrectTokenCaptcha", int64(id))["status"], any("success"))
	}
	eachCase(t, "create_task.txt", func(call, want string) {
		route, text, _ := strings.Cut(strings.NewReplacer("{key}", keyAll, "{id}", fmt.Sprint(int64(id))).Replace(call), " ")
		got := d.callCreateTask(t, route, text)
		testkit.Equal(t, call, fmt.Sprint(got["errorCode"], " ", got["errorId"]), want)
	})
	if got := d.callCreateTask(t, "/getBalance", `{"clientKey":"`+keyAll+`"}`); got["balance"] != 20.0 ||
		got["errorId"] != 0.0 {
		t.Errorf("the balance: %v", got)
	}
}

// TestClientKeyIsInTheCall: the key in the call identifies the caller. Wrong keys are counted. Only
// submissions count against the rate of a key.
func TestClientKeyIsInTheCall(t *testing.T) {
	keys := allKeys()
	keys[0].Rate.Count, keys[0].Rate.Per = 1, time.Hour
	d := start(t, sampleSet(keys...), nil, nil)
	d.fill(t, "checkout", 1)
	balance := func(key string, headers ...string) string {
		return d.ask(t, "GET", "/res.php?action=getbalance&key="+key, headers...).body
	}
	for key, want := range map[string]string{
		keyAll: "20", "": "ERROR_WRONG_USER_KEY", keyStatus: "ERROR_KEY_DOES_NOT_EXIST",
		"canary-key-wrong": "ERROR_KEY_DOES_NOT_EXIST",
	} {
		testkit.Equal(t, key, balance(key, bearer(keyAll), basic(keyAll)), want)
	}
	id := d.submitted(t, inPHPSubmit(keyAll, "checkout"))
	testkit.Equal(t, "the second submit", d.callInPHP(t, inPHPSubmit(keyAll, "checkout")), "MAX_USER_TURN")
	for range 3 {
		d.submitted(t, "/res.php?action=get&key="+keyAll+"&id="+id)
	}
	testkit.Equal(t, "a target of others",
		d.callInPHP(t, inPHPSubmit(keyStaging, "checkout")), "ERROR_DOMAIN_NOT_ALLOWED")
	refused := false
	for i := 0; i < 100 && !refused; i++ {
		refused = balance("canary-key-wrong") == "IP_BANNED"
	}
	testkit.Equal(t, "too many wrong keys are refused", refused, true)
	testkit.Equal(t, "a right one after them", balance(keyAll), "20")
	acao := d.ask(t, "GET", "/res.php?action=getbalance&header_acao=1&key="+keyAll, "Origin: https://elsewhere.example",
		"Sec-Fetch-Site: cross-site")
	if acao.body != "20" || acao.header.Get("Access-Control-Allow-Origin") != "*" ||
		acao.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("from a page: %s %v", acao.body, acao.header)
	}
	a := d.ask(t, "GET", "/res.php?action=getbalance&key="+keyAll)
	testkit.Equal(t, "the allowed origin, if none asks", a.header.Get("Access-Control-Allow-Origin"), "")
}

// TestClientsBalanceIsTheFirstKnown: the balance is the unused budget. Without a budget it is the
// balance of a provider, and otherwise the number of threads. An unreadable budget is an error.
func TestClientsBalanceIsTheFirstKnown(t *testing.T) {
	balance, other, capped := 12.5, 13.5, *sampleSet(allKeys()...)
	capped.Budget.PerDay = 20000
	for want, row := range map[string]struct {
		set   *targets.Set
		spent int  // orders of the last day
		down  bool // the orders cannot be read
		says  *float64
	}{
		"20":                      {set: sampleSet(allKeys()...)},
		"12.5":                    {set: sampleSet(allKeys()...), says: &balance},
		"18766":                   {set: &capped, says: &balance, spent: 1234},
		"ERROR_NO_SLOT_AVAILABLE": {set: &capped, says: &balance, down: true},
	} {
		d := start(t, row.set, nil, nil)
		second := purchase.ProviderStatus{Name: "second"}
		if d.provider.State.Balance = row.says; row.says != nil {
			second.State.Balance = &other
		}
		d.buyer.providers = func(context.Context) (list []purchase.ProviderStatus) { return append(list, d.provider, second) }
		for i := range row.spent {
			must(d.stock.redis.ZAdd("{captcha}:solves:overall", float64(time.Now().UnixMilli()), strconv.Itoa(i)))
		}
		d.stock.redis.SetDown(row.down)
		testkit.Equal(t, "the answer", d.callInPHP(t, "/res.php?action=getbalance&key="+keyAll), want)
	}
}

// TestGuestsOfClientsAreBought: tokens for submissions without a target are bought for guests. They
// differ from a target even if only one field differs.
func TestGuestsOfClientsAreBought(t *testing.T) {
	set := solvingSet(t, allKeys()...)
	set.Solve.Rate = targets.Rate{}
	d := start(t, set, nil, nil)
	guest := func(key, more string) string {
		return d.callInPHP(t, "/in.php?method=turnstile&sitekey=k&pageurl=https://guests.example.com/a&key="+key+more)
	}
	d.orders.answer = &pool.FailedError{Reason: "it failed"}
	for what, c := range map[string]struct{ got, want string }{
		"no target's and no guest's": {d.callInPHP(t, inPHPSubmit(keyAll, "checkout", "&proxy=h:1&proxytype=HTTP")),
			"ERROR_DOMAIN_NOT_ALLOWED"},
		"a key of some targets":      {guest(keyStaging, ""), "ERROR_DOMAIN_NOT_ALLOWED"},
		"a proxy for it":             {guest(keyStaging, "&proxy=h:1&proxytype=HTTP"), "ERROR_BAD_PARAMETERS"},
		"a field of another type":    {guest(keyAll, "&invisible=1"), "ERROR_BAD_PARAMETERS"},
		"a solve that fails at once": {guest(keyAll, ""), "ERROR_CAPTCHA_UNSOLVABLE"},
	} {
		testkit.Equal(t, what, c.got, c.want)
	}
	d.orders.answer = &pool.FailedError{NotPlaced: pool.ReasonBudget}
	testkit.Equal(t, "without a budget",
		guest(keyAll, "&proxy=u:canary-query@h:1&proxytype=SOCKS5"), "ERROR_NO_SLOT_AVAILABLE")
	asked := d.orders.specs.last()
	if id := asked.Identity; id.Proxy.Reveal() != "u:canary-query@h:1" || id.ProxyType != "socks5" ||
		asked.ID != pool.Guest(id.ID()) ||
		asked.Target != purchase.GuestTarget {
		t.Errorf("the order is not for the guest with the proxy: %+v", asked)
	}
	picture := base64.StdEncoding.EncodeToString([]byte("GIF89a-picture"))
	testkit.Equal(t, "a picture", d.callInPHP(t, "/in.php?method=base64&numeric=1&min_len=4&body="+
		url.QueryEscape(picture)+"&key="+keyAll), "ERROR_NO_SLOT_AVAILABLE")
	if spec := d.orders.specs.last(); string(spec.Image) != "GIF89a-picture" || spec.Identity.Picture.MinLength != 4 ||
		spec.Identity.Picture.Charset != "digits" {
		t.Errorf("the order is not for the picture and its hints: %+v", spec)
	}
	upload := func(files ...string) string {
		form := "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\n" + keyAll +
			"\r\n--b\r\nContent-Disposition: form-data; name=\"method\"\r\n\r\npost\r\n"
		for _, file := range files {
			form += "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.gif\"\r\n\r\n" + file + "\r\n"
		}
		return d.send(t, "POST", "/in.php", strings.NewReader(form+"--b--\r\n"),
			"Content-Type: multipart/form-data; boundary=b").body
	}
	testkit.Equal(t, "an upload", upload("GIF89a-upload"), "ERROR_NO_SLOT_AVAILABLE")
	testkit.Equal(t, "its picture", string(d.orders.specs.last().Image), "GIF89a-upload")
	asks := len(d.orders.specs.all())
	testkit.Equal(t, "an upload of two files", upload("GIF89a-one", "GIF89a-two"), "ERROR_BAD_PARAMETERS")
	testkit.Equal(t, "orders for it", len(d.orders.specs.all())-asks, 0)
	without := *d.config.Current()
	without.Solve = nil
	d.config.set.Store(&without)
	testkit.Equal(t, "a picture without a section solve",
		d.callInPHP(t, "/in.php?method=base64&body="+url.QueryEscape(picture)+"&key="+keyAll), "ERROR_NO_SUCH_METHOD")
}

// TestTaskNeedsItsRightAtEachPoll: after a reload took the right from the key, a guest's task is not told.
func TestTaskNeedsItsRightAtEachPoll(t *testing.T) {
	d := start(t, solvingSet(t, allKeys()...), nil, nil)
	sent := d.callInPHP(t, "/in.php?method=turnstile&sitekey=k&pageurl=https://guests.example.com/a&key="+keyAll)
	poll := "/res.php?action=get&id=" + strings.TrimPrefix(sent, "OK|") + "&key=" + keyAll
	testkit.Equal(t, "before", d.callInPHP(t, poll), "CAPCHA_NOT_READY")
	for name, change := range map[string]func(*targets.Key){
		"without the scope": func(k *targets.Key) { k.Scopes = k.Scopes[:1] },
		"with target globs": func(k *targets.Key) { k.Targets = []string{"*"} },
	} {
		keys := allKeys()
		change(&keys[0])
		d.config.set.Store(solvingSet(t, keys...))
		testkit.Equal(t, name, d.callInPHP(t, poll), "ERROR_DOMAIN_NOT_ALLOWED")
	}
}

// CapMonster's client for Go ends its paths with a slash.
func TestClientsMayAddASlash(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	for _, path := range []string{"/getTaskResult/", "/in.php/"} {
		response, err := http.Post("http://"+d.addr+path, "application/json",
			strings.NewReader(`{"clientKey":"no","key":"no"}`))
		testkit.NoError(t, err)
		_ = response.Body.Close()
		testkit.Equal(t, path, response.StatusCode, http.StatusOK)
	}
}

// TestManyIDsCountEachTokenOnce: a poll of several tasks hands out each token once, in the metrics
// and in the audit.
func TestManyIDsCountEachTokenOnce(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "checkout", 3)
	var ids []string
	for range 3 {
		ids = append(ids, d.submitted(t, inPHPSubmit(keyAll, "checkout")))
	}
	testkit.Equal(t, "tokens", strings.Count(
		d.callInPHP(t, "/res.php?action=get&key="+keyAll+"&ids="+strings.Join(ids, ",")), tokenValue), 3)
	// The last token is counted after the response was sent.
	testkit.Within(t, 20*time.Second, "three tokens are counted", func() bool {
		return strings.Contains(d.ask(t, "GET", "/metrics", bearer(keyAll)).body, `poold_token_age_seconds_count 3`+"\n")
	})
	testkit.Equal(t, "in the audit", len(d.noted(t)), 3)
}
