package httpapi

import (
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/httpapi/browsertest"
	"poold/internal/provider"
	"poold/internal/refill"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// browserPatience limits waits that take milliseconds on an idle machine.
const browserPatience = 60 * time.Second

// visitor is a page in a browser, and the test that uses the page.
type visitor struct {
	*browsertest.Page

	t *testing.T
	d *daemon
}

// TestBrowser tests the status page with a real browser. An error in the browser's console and a
// violation of the page's policy fail the test.
func TestBrowser(t *testing.T) {
	browser, stop, err := browsertest.Start(t.Context())
	testkit.NoError(t, err)
	t.Cleanup(stop)
	for name, test := range map[string]func(*testing.T, visitFunc){
		"renewal": browserRenewal, "operator": browserOperator, "hostile": browserHostile, "scriptless": browserScriptless,
		"restart": browserRestart,
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(d *daemon, key string) *visitor {
				page, closing, err := browser.Open()
				testkit.NoError(t, err)
				t.Cleanup(func() {
					for _, trouble := range page.Troubles() {
						if away := strings.HasPrefix(trouble, "network") || strings.Contains(trouble, "htmx:"); !away ||
							name != "restart" {
							t.Error(trouble)
						}
					}
					closing()
				})
				v := &visitor{Page: page, t: t, d: d}
				if name == "scriptless" {
					testkit.NoError(t, page.DisableScripts())
				}
				address := d.addr
				if key != "" { // the browser then sends it by itself
					address = "anyone:" + key + "@" + d.addr
				}
				testkit.NoError(t, page.Visit("http://"+address+"/status"))
				v.waitFor("the targets", `document.querySelectorAll('.target').length > 0`)
				return v
			})
		})
	}
}

type visitFunc func(d *daemon, key string) *visitor

// waitFor waits until an expression is true. The page may load anew meanwhile.
func (v *visitor) waitFor(what, expression string) {
	v.t.Helper()
	testkit.Within(v.t, browserPatience, what, func() bool {
		return v.Is(`Boolean(((row) => { try { return ` + expression + ` } catch { return false } })(
			(name, cell) => document.getElementById('o-' + name).closest('tr').querySelector(cell)))`)
	})
}

// run runs a statement of JavaScript.
func (v *visitor) run(statement string) {
	v.t.Helper()
	_, err := browsertest.Eval[bool](v.Page, "("+statement+", true)")
	testkit.NoError(v.t, err)
}

// follow clicks a link or a button of the page.
func (v *visitor) follow(selector string) {
	v.t.Helper()
	v.waitFor(selector, fmt.Sprintf(`(document.querySelector(%q).click(), true)`, selector))
}

// browserRenewal tests that htmx shows a take without a reload of the page, and that the focus and a search survive.
// The search works while the user types. A paused page stays as it is.
func browserRenewal(t *testing.T, visit visitFunc) {
	d := start(t, sampleSet(), nil, nil)
	d.stock.readStock(t, d.target("checkout")) // as package refill does before it buys
	d.fill(t, "checkout", 3)
	v := visit(d, "")
	v.follow("#o-checkout")
	v.waitFor("the details", `document.querySelector('.detail .facts')`)
	v.run(`window.marker = true, document.querySelector('#o-checkout').focus()`)
	for _, left := range []string{"2 of 5", "1 of 5"} {
		d.ask(t, "POST", "/pool/checkout/token").check(t, "the answer", 200)
		v.waitFor("a take", `row('checkout', '.depth').textContent === '`+left+`'`)
	}
	v.waitFor("the same page with the same focus", `marker && document.activeElement.id === 'o-checkout'`)
	v.waitFor("the charts", `document.querySelectorAll('.plot .hit').length === 2 && `+
		`document.querySelector('.facts').textContent.includes('2 hits, 0 waited, 0 missed')`)
	v.run(`search.focus(), search.value = 'signup', search.dispatchEvent(new Event('input', {bubbles: true}))`)
	v.waitFor("those of a search", `document.getElementById('listed').textContent === '1 of 3 targets'`)
	v.run(`window.marker = document.querySelector('#asof')`)
	v.waitFor("the same after a renewal", `marker !== document.querySelector('#asof') &&
		document.activeElement.id === 'search' && document.querySelectorAll('.target').length === 1 &&
		location.search.includes('signup')`)
	v.follow("#refresh")
	v.waitFor("the pause", `document.querySelector('#asof').textContent.includes('Paused') && `+
		`!document.querySelector('#top').hasAttribute('hx-trigger')`)
	v.waitFor("the search of the paused page", `document.querySelectorAll('.target').length === 1`)
}

// browserRestart tests that the page shows that its daemon is gone, and continues by itself when a daemon serves
// the same address again.
func browserRestart(t *testing.T, visit visitFunc) {
	d := start(t, sampleSet(), nil, nil)
	serve := func(address string) *httptest.Server {
		var err error
		server := httptest.NewUnstartedServer(d.HTTPServer().Handler)
		testkit.NoError(t, server.Listener.Close())
		server.Listener, err = net.Listen("tcp", address)
		testkit.NoError(t, err)
		server.Start()
		t.Cleanup(server.Close)
		return server
	}
	server := serve("127.0.0.1:0")
	d.addr = server.Listener.Addr().String()
	v := visit(d, "")
	shows := func(part string) {
		t.Helper()
		v.waitFor(part, "getComputedStyle(document.querySelector('#asof ."+part+
			"')).visibility === 'visible' && document.querySelectorAll('.target').length === 3")
	}
	shows("now")
	server.CloseClientConnections()
	server.Close()
	shows("stale")
	serve(d.addr)
	shows("now")
}

// browserOperator tests that a key with the scope admin can pause a target, after the page has described the effect.
func browserOperator(t *testing.T, visit visitFunc) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	d.fill(t, "checkout", 2)
	v := visit(d, keyAll)
	v.follow("#o-checkout")
	v.follow("#flush")
	v.waitFor("what it does", `document.querySelector('#confirm').textContent.includes('Discards 2 ready tokens') && `+
		`document.activeElement.textContent === 'Flush'`)
	v.follow("#pause")
	v.waitFor("a reason to give", `document.querySelector('#confirm input[name=reason]')`)
	v.run(`document.querySelector('#confirm input[name=reason]').value = 'tests'`)
	v.follow("#confirm .go")
	v.waitFor("a pause", `document.querySelector('.done').textContent === 'Buying was paused.' && `+
		`row('checkout', '.why').textContent.startsWith('paused by all: tests')`)
}

// browserHostile tests that long and hostile texts from the file and from services make the page neither wider nor
// unsafe.
func browserHostile(t *testing.T, visit visitFunc) {
	evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e\x1b[31m'&lt;" + strings.Repeat("x", 10_000)
	set := sampleSet()
	set.Targets[0].Owner, set.Targets[0].Identity.Type, set.Targets[0].Identity.Sitekey = evil, captcha.Type(evil), evil
	set.Warnings = []targets.Problem{{File: evil, Line: 3, Text: evil}}
	d := start(t, set, nil, nil)
	d.config.problems = []targets.Problem{{File: evil, Text: evil}}
	d.say(t, "checkout", refill.Status{State: refill.Refused, Reason: evil})
	d.stock.redis.HSet(key("stats", d.target("checkout")), "failures", fmt.Sprintf("%d|%s", day.UnixMilli(), evil))
	d.provider.Name, d.provider.State = evil, provider.Condition{Kind: provider.StateKind(evil), Reason: evil}
	v := visit(d, "")
	v.follow("#o-checkout")
	v.waitFor("the details", `document.querySelector('.detail')`)
	v.waitFor("texts alone", `!document.querySelector('img, body script, a[href^=j]')`)
	for what, where := range map[string]string{
		"the file's problem": `#banner code`, "the file's warning": `#list section code`,
		"the provider": `.providers th[scope=row]`, "its state": `.providers .badge`, "its words": `.providers .why`,
		"an owner": `.target small`, "the service's words": `.target .why`, "the opened row": `.detail .facts`,
	} {
		v.waitFor(what, fmt.Sprintf(`[...document.querySelectorAll('%s')].some((n) =>
			n.textContent.includes('<script>alert(1)</script>') && n.textContent.length > 9000)`, where))
	}
	testkit.NoError(t, v.Viewport(375, 812, 1, "dark"))
	wide, err := browsertest.Eval[string](v.Page,
		`[...document.querySelectorAll('body *')].filter((n) =>
			n.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5 && !n.closest('.days, .scroll')
		).map((n) => n.tagName + '.' + n.className).join(' ')`)
	testkit.NoError(t, err)
	testkit.Equal(t, "wider than the window of a phone", wide, "")
}

// browserScriptless tests that the page works without JavaScript: it reloads itself, and links and forms work.
func browserScriptless(t *testing.T, visit visitFunc) {
	d := start(t, sampleSet(), nil, nil)
	v := visit(d, "")
	v.follow("#o-checkout")
	v.waitFor("the details", `document.querySelector('.detail')`)
	d.fill(t, "checkout", 2)
	v.waitFor("the tokens", `row('checkout', '.depth').textContent === '2 of 5' && document.querySelector('.detail')`)
	v.follow("#flush")
	v.follow("#confirm .go")
	v.waitFor("no tokens", `row('checkout', '.depth').textContent === '0 of 5' && document.querySelector('.done')`)
	v.run(`document.getElementById('search').value = 'signup', document.querySelector('#find button').click()`)
	v.waitFor("those of a search", `document.querySelectorAll('.target').length === 1`)
}
