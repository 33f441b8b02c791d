package httpapi

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/httpapi/browsertest"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/targets"
)

// browserPatience limits waits that take milliseconds on an idle machine.
const browserPatience = 20 * time.Second

// visitor is a page in a browser, and the test that uses the page.
type visitor struct {
	*browsertest.Page

	t *testing.T
}

// TestBrowser tests the status page with a real browser. An error in the browser's console and a
// violation of the page's policy fail the test.
func TestBrowser(t *testing.T) {
	browser, stop, err := browsertest.Start(t.Context())
	noError(t, err)
	t.Cleanup(stop)
	fluid := beginFluid(t, visits(t, browser, ""))
	for name, test := range map[string]func(t *testing.T, visit func(d *daemon, authorization string) *visitor){
		"take": browserTake, "file": browserFile, "no money": browserNoMoney, "operator": browserOperator, "basic": browserBasic, "onlooker": browserOnlooker,
		"cut": browserCut, "hostile": browserHostile, "many": browserMany, "tabs": browserTabs,
	} {
		t.Run(name, func(t *testing.T) {
			// The browser reports a lost connection, and a 404 for the counts of a target that is gone or has an
			// impossible name.
			forgiven := map[string]string{"cut": "network", "file": "network", "hostile": "network"}
			test(t, visits(t, browser, forgiven[name]))
		})
	}
	t.Run("fluid", fluid.end)
}

// visits returns a function that opens the page of a daemon. Errors that the browser reports fail
// the test, except forgiven ones.
func visits(t *testing.T, browser *browsertest.Browser, forgiven string) func(d *daemon, authorization string) *visitor {
	return func(d *daemon, authorization string) *visitor {
		page, closing, err := browser.Open()
		noError(t, err)
		v := &visitor{Page: page, t: t}
		t.Cleanup(func() {
			for _, trouble := range page.Troubles() {
				if forgiven == "" || !strings.HasPrefix(trouble, forgiven) {
					t.Error(trouble)
				}
			}
			closing()
		})
		address := "http://" + d.addr + "/status"
		if key := authorization; key != "" && !strings.Contains(key, " ") {
			address, authorization = "http://anyone:"+key+"@"+d.addr+"/status", ""
		}
		noError(t, page.Visit(address, authorization))
		v.waitFor("it is live", `document.getElementById('mode').textContent === 'Live' && document.querySelectorAll('.target').length > 0`)
		return v
	}
}

func (v *visitor) waitFor(what, expression string) {
	v.t.Helper()
	if err := v.WaitUntil(browserPatience, expression); err != nil {
		shown, _ := browsertest.Eval[string](v.Page, `document.body.innerText.slice(0, 3000)`)
		v.t.Fatalf("%s: %v\n%s", what, err, shown)
	}
}

func (v *visitor) run(statement string) {
	v.t.Helper()
	if _, err := browsertest.Eval[bool](v.Page, "("+statement+", true)"); err != nil {
		v.t.Fatal(err)
	}
}

func (v *visitor) isTrue(expression string) bool {
	v.t.Helper()
	is, err := browsertest.Eval[bool](v.Page, expression)
	if err != nil {
		v.t.Fatal(err)
	}
	return is
}

// browserTake tests that a take changes the bar and the charts without a reload of the page. The page
// loads the minutes only for the rows in its window.
func browserTake(t *testing.T, visit func(*daemon, string) *visitor) {
	d := start(t, sampleSet(), nil, nil)
	d.stock.readStock(t, d.target("checkout")) // as package refill does before it buys
	d.fill(t, "checkout", 3)
	v := visit(d, "")
	for left := range slices.Backward([]int{0, 1, 2}) {
		d.ask(t, "POST", "/pool/checkout/token").check(t, "the answer", 200)
		v.waitFor("a take", fmt.Sprintf(`document.querySelector('#t-checkout .bar').getAttribute('aria-label').startsWith('%d token')`, left))
	}
	v.waitFor("the hour", `document.querySelector('#t-checkout .hour').textContent === '100 % of 3'`)
	v.run(`document.querySelector('#t-checkout button').click()`)
	v.waitFor("the rest, with its chart", `document.querySelector('.detail canvas') && document.querySelector('.detail').textContent.includes('3 hits')`)
	v.waitFor("the minutes", `document.querySelector('.plot').getAttribute('aria-label') === 'Requests in the last 1 hour: 3 hits, 0 waited or missed' && document.querySelector('#t-checkout .spark .hit').getAttribute('d').startsWith('M')`)
	d.ask(t, "POST", "/pool/checkout/token")
	v.waitFor("a miss", `document.querySelector('.plot').getAttribute('aria-label').endsWith('3 hits, 1 waited or missed') && document.querySelector('#t-checkout .spark .miss').getAttribute('d').startsWith('M')`)
	if !v.isTrue(`[...byName.values()].every((t) => t.hour.requests >= 0 && !('minutes' in t.hour))`) {
		t.Error("the polled status has the minutes of all targets")
	}
	if !v.isTrue(`(paces = [{ at: asOf() - 120000, targets: byName.size, requests: 0 }], pace([...byName.values()]).join(' ')) === '2 over 2 min'`) {
		t.Error("the page counts another rate than 4 requests in 2 minutes")
	}
}

// browserFile tests that a new target in the file appears and a removed target disappears. The
// problem of a refused file disappears after the repair.
func browserFile(t *testing.T, visit func(*daemon, string) *visitor) {
	set := sampleSet()
	d := start(t, set, nil, nil)
	v := visit(d, "")
	changed := *set
	added := set.Targets[0]
	added.Name, added.Identity.Pageurl = "added", "https://added.example.com/"
	added.ID = added.Identity.ID()
	changed.Targets = append([]targets.Target{added}, set.Targets[1:]...)
	d.config.set.Store(&changed)
	v.waitFor("another target", `document.getElementById('t-added') && !document.getElementById('t-checkout')`)
	d.config.setProblems(targets.Problem{File: "pools.yaml", Line: 12, Text: "unknown key dpeth"})
	v.waitFor("the line", `document.querySelector('#banner').textContent.includes('pools.yaml:12: unknown key dpeth') && document.title.includes('alarm')`)
	d.config.setProblems()
	v.waitFor("that it is mended", `!document.querySelector('#banner').textContent.includes('pools.yaml') && document.title === 'poold'`)
}

// latestAlarm limits the time until the page shows a change: it polls every 2 s a status whose
// providers are up to 1 s old.
const latestAlarm = 4 * time.Second

// browserNoMoney tests that the page soon shows a provider without money as its first alarm.
func browserNoMoney(t *testing.T, visit func(*daemon, string) *visitor) {
	d := start(t, sampleSet(), nil, nil)
	var broke atomic.Bool
	d.buyer.providers = func(context.Context) []purchase.Status {
		if !broke.Load() {
			return []purchase.Status{{Name: "solver", State: provider.State{Kind: provider.StateOK}, Concurrency: 20}}
		}
		return []purchase.Status{{Name: "solver", State: provider.State{Kind: provider.StateDown, Reason: "ERROR_ZERO_BALANCE", Until: time.Now().Add(time.Minute)}, Concurrency: 20}}
	}
	v := visit(d, "")
	first := time.Hour
	for rounds := 0; rounds < 3 && first > latestAlarm; rounds++ { // a busy machine may be late in one round
		broke.Store(false)
		v.waitFor("nothing special", `document.querySelector('#banner').textContent === ''`)
		began := time.Now()
		broke.Store(true)
		v.waitFor("why nothing is bought, first of all", `/^Provider solver is down \(ERROR_ZERO_BALANCE\): nothing is bought; .*, next try in \d+ s/.test(document.querySelector('main').innerText.trim())`)
		first = time.Since(began)
	}
	if t.Logf("it is shown after %v", first); first > latestAlarm {
		t.Errorf("it is shown after %v", first)
	}
	v.waitFor("the same at a target, and in the tab", `document.querySelector('#t-checkout .why').textContent.includes('ERROR_ZERO_BALANCE') && /^\(3\) poold/.test(document.title) && document.getElementById('icon').getAttribute('href').includes('n=3')`)
	broke.Store(false)
	v.waitFor("that it is over", `document.querySelector('#banner').textContent === '' && document.title === 'poold'`)
}

// browserOperator tests that a key with the scope admin can pause and resume, after the page has
// described the effect.
func browserOperator(t *testing.T, visit func(*daemon, string) *visitor) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "checkout", 2)
	v := visit(d, "Bearer "+keyAll)
	press := func(name string) {
		v.waitFor("a button", fmt.Sprintf(`[...document.querySelectorAll('.detail button')].some((b) => b.textContent === %q)`, name))
		v.run(fmt.Sprintf(`[...document.querySelectorAll('.detail button')].find((b) => b.textContent === %q).click()`, name))
	}
	v.waitFor("what is ready", `document.querySelector('#t-checkout .depth').textContent.startsWith('2 of 5')`)
	v.run(`document.querySelector('#t-checkout button').click()`)
	press("Flush")
	v.waitFor("what it does", `document.querySelector('dialog').textContent.includes('Discards 2 ready tokens') && document.querySelector('dialog .go').textContent === 'Flush'`)
	v.run(`document.querySelector('dialog button[value=no]').click()`)
	v.waitFor("that nothing was done", `!document.querySelector('dialog') && document.querySelector('#t-checkout .depth').textContent.startsWith('2 of 5')`)
	press("Pause")
	v.waitFor("what it does", `document.querySelector('dialog').textContent.includes('2 tokens are ready')`)
	v.run(`document.querySelector('dialog .go').click()`)
	v.waitFor("a pause", `document.querySelector('#t-checkout .badge').textContent === 'paused' && !document.querySelector('dialog')`)
	press("Resume")
	v.run(`document.querySelector('dialog .go').click()`)
	v.waitFor("its end", `document.querySelector('#t-checkout .badge').textContent === 'ok'`)
}

// browserBasic tests that the browser sends the key as a Basic password by itself, also for a button.
func browserBasic(t *testing.T, visit func(*daemon, string) *visitor) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	v := visit(d, keyAll)
	v.run(`document.querySelector('#t-checkout button').click()`)
	v.waitFor("a button", `[...document.querySelectorAll('.detail button')].some((b) => b.textContent === 'Pause')`)
	v.run(`[...document.querySelectorAll('.detail button')].find((b) => b.textContent === 'Pause').click()`)
	v.waitFor("a dialog", `document.querySelector('dialog .go')`)
	v.run(`document.querySelector('dialog .go').click()`)
	v.waitFor("a pause", `document.querySelector('#t-checkout .badge').textContent === 'paused' && !document.querySelector('dialog')`)
}

// browserOnlooker tests that a key with only the scope status gets no buttons.
func browserOnlooker(t *testing.T, visit func(*daemon, string) *visitor) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	v := visit(d, "Bearer "+keyStatus)
	v.run(`document.querySelector('#t-checkout button').click()`)
	v.waitFor("the rest", `document.querySelector('.detail .command').textContent.includes('/pool/checkout/token')`)
	if !v.isTrue(`document.querySelector('.buttons') === null && document.getElementById('reload').hidden`) {
		t.Error("a key that may only look has buttons")
	}
}

// browserCut tests that the page shows an outage of the daemon and becomes live again by itself.
func browserCut(t *testing.T, visit func(*daemon, string) *visitor) {
	var line cutLine
	d := start(t, sampleSet(), line.add, nil)
	v := visit(d, "")
	line.cut(true)
	v.waitFor("that it is not live", `document.getElementById('mode').textContent === 'Not live'`)
	line.cut(false)
	d.fill(t, "checkout", 1)
	v.waitFor("that it is back", `document.getElementById('mode').textContent === 'Live' && document.querySelector('#t-checkout .depth').textContent.startsWith('1 of 5')`)
}

// cutLine keeps connections, so that a test can cut all of them.
type cutLine struct {
	mu    sync.Mutex
	is    bool
	conns []net.Conn
}

func (l *cutLine) add(conn net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, conn)
	if l.is {
		_ = conn.Close()
	}
	return conn
}

func (l *cutLine) cut(isCut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.is = isCut
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

// browserHostile tests that the page shows texts from the file and from services as text,
// regardless of their length.
func browserHostile(t *testing.T, visit func(*daemon, string) *visitor) {
	evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e\x1b[31m'&lt;" + strings.Repeat("x", 10_000)
	set := sampleSet()
	set.Targets[0].Owner, set.Targets[0].Name = evil, "a"+evil
	set.Targets[0].Identity.Type, set.Targets[0].Identity.Sitekey = captcha.Type(evil), evil
	set.Warnings = []targets.Problem{{File: evil, Line: 3, Text: evil}}
	d := start(t, set, nil, nil)
	d.config.problems = []targets.Problem{{File: evil, Text: evil}}
	d.say(t, "a"+evil, refill.Status{State: refill.Refused, Reason: evil})
	d.stock.redis.HSet(key("stats", d.target("a"+evil)), "failures", fmt.Sprintf("%d|%s", day.UnixMilli(), evil))
	d.say(t, "staging-login", refill.Status{State: refill.Paused, Reason: evil})
	d.provider = purchase.Status{Name: evil, State: provider.State{Kind: provider.StateKind(evil), Reason: evil}}
	v := visit(d, "")
	v.run(`document.querySelectorAll('.target button').forEach((b) => b.click())`)
	v.run(`[...document.querySelectorAll('.detail button')].filter((b) => b.textContent === 'Flush').forEach((b) => b.click())`)
	if !v.isTrue(`document.querySelector('img, #app script, dialog script, a[href^=j]') === null`) {
		t.Error("something of it is no text")
	}
	for what, where := range map[string]string{
		"the alarm": `#banner [role=alert]`, "the file's problem": `#banner code`, "the file's warning": `#notes code`, "the provider": `#providers th`,
		"its state": `#providers .badge`, "its words": `#providers .why`, "a name": `.target .open`, "an owner": `.target small`,
		"the service's words": `.target .why`, "a pause": `#t-staging-login .why`, "the opened row": `.detail .facts`, "a dialog": `dialog h2`,
	} {
		if !v.isTrue(fmt.Sprintf(`document.querySelector('%s').textContent.includes('<script>alert(1)</script>') && document.querySelector('%s').textContent.length > 9000`, where, where)) {
			t.Errorf("%s is not shown as it is", what)
		}
	}
	for _, fact := range []string{"Last failures", "Identity", "Owner"} {
		if !v.isTrue(fmt.Sprintf(`[...document.querySelectorAll('.facts dt')].find((n) => n.textContent === '%s').nextElementSibling.textContent.length > 9000`, fact)) {
			t.Errorf("%s is not shown as it is", fact)
		}
	}
	if !v.isTrue(`document.documentElement.scrollWidth <= document.documentElement.clientWidth`) {
		wide, _ := browsertest.Eval[string](v.Page, `[...document.querySelectorAll('#app *')].filter((n) => n.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5 || n.scrollWidth > document.documentElement.clientWidth).slice(0, 5).map((n) => n.tagName + '.' + n.className + '#' + n.id.slice(0, 20)).join(' ')`)
		t.Error("the page is wider than its window: " + wide)
	}
}

// browserMany tests that the search filters many targets and that targets with problems come first.
func browserMany(t *testing.T, visit func(*daemon, string) *visitor) {
	d := start(t, manyTargets(sampleSet(), 100), nil, nil)
	d.say(t, "t00050", refill.Status{State: refill.Refused, Reason: "ERROR_GOOGLEKEY", Want: 5})
	v := visit(d, "")
	v.waitFor("all of them, the one in trouble first", `document.querySelectorAll('.target').length === 103 && document.querySelector('.target').id === 't-t00050'`)
	v.run(`document.getElementById('search').value = 't0009', document.getElementById('search').dispatchEvent(new Event('input'))`)
	v.waitFor("those of a search", `document.querySelectorAll('.target').length === 10 && document.getElementById('listed').textContent === '10 of 103 targets'`)
	v.run(`document.getElementById('search').value = '', document.getElementById('problems').click()`)
	v.waitFor("only problems", `document.querySelectorAll('.target').length === 1`)
	v.run(`document.getElementById('problems').click(), document.getElementById('grouped').click()`)
	v.waitFor("groups", `document.querySelectorAll('.group').length === 4 && document.querySelectorAll('.target').length === 103`)
}

// fluidPage is a page of 500 targets that polls while other tests run.
type fluidPage struct {
	v     *visitor
	began browsertest.Effort
}

// costlyChange limits the page's processor time for a status of 500 targets, 50 of them changed, so that a person
// notices no delay.
const (
	costlyChange = 200 * time.Millisecond
	grownHeap    = 4 << 20
)

func beginFluid(t *testing.T, visit func(*daemon, string) *visitor) *fluidPage {
	d := startCrowd(t, 500, 10)
	v := visit(d, "")
	v.waitFor("all of them", `document.querySelectorAll('.target').length === 500`)
	v.run(`document.querySelector('.target button').click()`)
	noError(t, v.Watch())
	v.run(`window.changes = 0, window.take = takeStatus, takeStatus = (d) => (changes++, take(d))`)
	v.waitFor("some changes", `changes > 2`)
	began, err := v.Effort()
	noError(t, err)
	v.run(`window.changes = 0`)
	return &fluidPage{v, began}
}

// end checks that the page was fluid. The test limits the processor time, because
// wall-clock times depend on the load of the machine.
func (f *fluidPage) end(t *testing.T) {
	f.v.waitFor("more changes", `changes >= 10`)
	changes, err := browsertest.Eval[int](f.v.Page, `changes`)
	noError(t, err)
	ended, err := f.v.Effort()
	noError(t, err)
	each := (ended.CPU - f.began.CPU) / time.Duration(changes)
	grown := ended.Heap - f.began.Heap
	t.Logf("%d changes cost %v each; the heap has %d kB more than %d kB; long tasks: %v", changes, each, grown>>10, f.began.Heap>>10, ended.Long)
	if each > costlyChange || grown > grownHeap {
		t.Errorf("a change costs %v, more than %v, or the heap grew by %d kB", each, costlyChange, grown>>10)
	}
}
