package targets

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

// withSolve returns the smallest valid file with a section `solve`.
func withSolve(lines ...string) string {
	return "solve:\n  owner: qa@example.com\n  budget: {per_day: 5}\n  " + strings.Join(lines, "\n  ") + "\n" + minimal()
}

func solveOf(t *testing.T, lines ...string) *Solve {
	t.Helper()
	return mustParse(t, withSolve(lines...), References{}).Solve
}

// A pattern compares scheme, host, port and path of a page separately.
func TestPatternsCompareEachPartOfAPage(t *testing.T) {
	for _, tc := range []struct{ pattern, yes, no string }{
		{"https://staging.example.com/*",
			"https://staging.example.com/ https://staging.example.com https://STAGING.Example.com:443/a/b?c=https://d HTTPS://staging.example.com/%C3%A4", "http://staging.example.com/ https://staging.example.com:8443/ https://example.com/ https://a.staging.example.com/ https://staging.example.com.evil.example/ https://staging.example.comx/"},
		{"https://*.example.com/*", "https://a.example.com/ https://a-b_c.example.com/x",
			"https://example.com/ https://a.b.example.com/ https://a.example.com.evil.example/ https://aexample.com/"},
		{"https://st*g-*.example.com/*", "https://staging-1.example.com/ https://stg-.example.com/",
			"https://staging.example.com/ https://sta.g-1.example.com/"},
		{"http://localhost:*/login", "http://localhost/login http://localhost:8080/login http://localhost:8080/login?a=/b",
			"https://localhost/login http://localhost:8080/login/ http://localhost/Login http://localhost"},
		{"http://a.example/*", "http://a.example:80/", "http://a.example:443/ http://a.example:8080/"},
		{"http://localhost:8080/", "http://localhost:8080 http://localhost:8080/ http://localhost:8080/?a",
			"http://localhost/ http://localhost:80801/"},
		{"https://a.example/app/*/edit", "https://a.example/app/1/edit https://a.example/app/1/2/edit",
			"https://a.example/app/edit https://a.example/app/1/edit/ https://a.example/x/app/1/edit"},
		{"https://a.example/*a*aa", "https://a.example/aaa https://a.example/xaxaa", "https://a.example/aa https://a.example/a"},
		{"https://192.0.2.1/*", "https://192.0.2.1/a",
			"https://192.0.2.10/ https://3221225985/ https://0xc0.0.2.1/ https://192.0.513/ https://192.0.2.01/ https://192.0.2.1./ https://[::ffff:192.0.2.1]/"},
		{"https://[2001:DB8:0::1]:*/*", "https://[2001:db8::1]/ https://[2001:db8:0:0:0:0:0:1]:1/",
			"https://[2001:db8::2]/ https://[2001:db8::1%25eth0]/ https://[2001:db8::1]x/ https://2001:db8::1/"},
		{"https://xn--stging-5wa.example/*", "https://XN--stging-5wa.example/", "https://stäging.example/ https://st%C3%A4ging.example/"},
	} {
		s := solveOf(t, "pages: ['"+tc.pattern+"']")
		allows := func(address string) bool {
			return s.Allows(captcha.Identity{Type: captcha.HCaptcha, Sitekey: "a", Pageurl: address}) == nil
		}
		for _, address := range strings.Fields(tc.yes) {
			if !allows(address) {
				t.Errorf("%s does not allow %s", tc.pattern, address)
			}
		}
		for _, address := range strings.Fields(tc.no) {
			if allows(address) {
				t.Errorf("%s allows %s", tc.pattern, address)
			}
		}
	}
}

// hostile returns addresses that programs parse in different ways.
func hostile(t testing.TB) (all []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/pages.txt")
	testkit.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		address, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(line, err)
		}
		all = append(all, address)
	}
	return all
}

func TestAmbiguousPagesAreRefused(t *testing.T) {
	s := solveOf(t, "pages: ['https://*.example.com:*/*', 'https://staging.example.com/*', 'https://127.0.0.1/*', 'https://[::1]/*']")
	for _, address := range hostile(t) {
		err := s.Allows(captcha.Identity{Type: captcha.Turnstile, Sitekey: "a", Pageurl: address})
		if err == nil || !strings.HasPrefix(err.Error(), "pageurl: ") || strings.Contains(err.Error(), otherPage) ||
			strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// Allows also checks whether pictures and the site key are allowed.
func TestAllowsChecksPicturesAndSiteKeys(t *testing.T) {
	const page = "https://a.example/"
	all, some := solveOf(t, "pages: ['https://a.example/*']"),
		solveOf(t, "pages: ['https://a.example/*']", "sitekeys: [6Le*x, '*test']", "images: true")
	for _, tc := range []struct {
		id        captcha.Identity
		all, some string // the fields in the error; "" = allowed
	}{
		{captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "6Lex", Pageurl: page}, "", ""},
		{captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "6Ley", Pageurl: page}, "", "sitekey"},
		{captcha.Identity{Type: captcha.RecaptchaV3, Sitekey: "6lex", Pageurl: page}, "", "sitekey"},
		{captcha.Identity{Type: captcha.HCaptcha, Sitekey: "my-test", Pageurl: page}, "", ""},
		{captcha.Identity{Type: captcha.HCaptcha, Sitekey: "my-test", Pageurl: "https://b.example/"}, "pageurl", "pageurl"},
		{captcha.Identity{Type: captcha.GeeTest, GT: "my-test", Pageurl: page}, "", ""},
		{captcha.Identity{Type: captcha.GeeTest, GT: "my", Sitekey: "my-test", Pageurl: page}, "", "gt"},
		{captcha.Identity{Type: captcha.GeeTest, GT: "my-test", Pageurl: "https://b.example/"}, "pageurl", "pageurl"},
		{captcha.Identity{Type: captcha.GeeTestV4, CaptchaID: "my-test", Pageurl: page}, "", ""},
		{captcha.Identity{Type: captcha.GeeTestV4, CaptchaID: "my", Sitekey: "my-test", Pageurl: page}, "", "captcha_id"},
		{captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{SHA256: "00"}}, "image", ""},
	} {
		for s, want := range map[*Solve]string{all: tc.all, some: tc.some} {
			named := ""
			if err := s.Allows(tc.id); err != nil {
				named, _, _ = strings.Cut(err.Error(), ":")
			}
			testkit.Equal(t, fmt.Sprintf("names of %+v", tc.id), named, want)
		}
	}
}
