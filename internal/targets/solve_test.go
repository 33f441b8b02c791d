package targets

import (
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"poold/internal/captcha"
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
		{"https://staging.example.com/*", "https://staging.example.com/ https://staging.example.com https://STAGING.Example.com:443/a/b?c=https://d HTTPS://staging.example.com/%C3%A4",
			"http://staging.example.com/ https://staging.example.com:8443/ https://example.com/ https://a.staging.example.com/ https://staging.example.com.evil.example/ https://staging.example.comx/"},
		{"https://*.example.com/*", "https://a.example.com/ https://a-b_c.example.com/x", "https://example.com/ https://a.b.example.com/ https://a.example.com.evil.example/ https://aexample.com/"},
		{"https://st*g-*.example.com/*", "https://staging-1.example.com/ https://stg-.example.com/", "https://staging.example.com/ https://sta.g-1.example.com/"},
		{"http://localhost:*/login", "http://localhost/login http://localhost:8080/login http://localhost:8080/login?a=/b", "https://localhost/login http://localhost:8080/login/ http://localhost/Login http://localhost"},
		{"http://a.example/*", "http://a.example:80/", "http://a.example:443/ http://a.example:8080/"},
		{"http://localhost:8080/", "http://localhost:8080 http://localhost:8080/ http://localhost:8080/?a", "http://localhost/ http://localhost:80801/"},
		{"https://a.example/app/*/edit", "https://a.example/app/1/edit https://a.example/app/1/2/edit", "https://a.example/app/edit https://a.example/app/1/edit/ https://a.example/x/app/1/edit"},
		{"https://a.example/*a*aa", "https://a.example/aaa https://a.example/xaxaa", "https://a.example/aa https://a.example/a"},
		{"https://192.0.2.1/*", "https://192.0.2.1/a", "https://192.0.2.10/ https://3221225985/ https://0xc0.0.2.1/ https://192.0.513/ https://192.0.2.01/ https://192.0.2.1./ https://[::ffff:192.0.2.1]/"},
		{"https://[2001:DB8:0::1]:*/*", "https://[2001:db8::1]/ https://[2001:db8:0:0:0:0:0:1]:1/", "https://[2001:db8::2]/ https://[2001:db8::1%25eth0]/ https://[2001:db8::1]x/ https://2001:db8::1/"},
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

// hostile contains addresses that programs parse in different ways, each with the reason why it is
// refused.
var hostile = map[string]string{
	"https://staging.example.com@evil.example/":    "must not hold a user and password",
	"https://a:b@staging.example.com/":             "must not hold a user and password",
	"https://@staging.example.com/":                "must not hold a user and password",
	"https://evil.example%40staging.example.com/":  "the host must be names",
	"https://staging.example.com/@evil.example/":   "must not hold an @",
	"https://staging.example.com/?@evil.example/":  "must not hold an @",
	`https://staging.example.com\@evil.example/`:   "must be ASCII without spaces and backslashes",
	`https://evil.example\.staging.example.com/`:   "must be ASCII without spaces and backslashes",
	`https:\\staging.example.com/`:                 "must be ASCII without spaces and backslashes",
	"https://staging.example.com\t.evil.example/":  "must be ASCII without spaces and backslashes",
	" https://staging.example.com/":                "must be ASCII without spaces and backslashes",
	"https://staging.example.com/\r\nHost: evil":   "must be ASCII without spaces and backslashes",
	"https://staging.example.com/\x00":             "must be ASCII without spaces and backslashes",
	"https://staging.example.com。evil.example/":    "must be ASCII without spaces and backslashes",
	"https://staging.example.com／.evil.example/":   "must be ASCII without spaces and backslashes",
	"https://ｓtaging.example.com/":                 "must be ASCII without spaces and backslashes",
	"https://staging.example.com#@evil.example/":   "must not hold a fragment",
	"https://staging.example.com/#":                "must not hold a fragment",
	"https://staging.example.com?.evil.example/":   "needs a / before the ?",
	"https:staging.example.com/":                   "must begin with http:// or https://",
	"https:/staging.example.com/":                  "must begin with http:// or https://",
	"//staging.example.com/":                       "must begin with http:// or https://",
	"staging.example.com/":                         "must begin with http:// or https://",
	"javascript://staging.example.com/%0aalert(1)": "must begin with http:// or https://",
	"view-source:https://staging.example.com/":     "must begin with http:// or https://",
	"":                              "must begin with http:// or https://",
	"https:///staging.example.com/": "the host must be names",
	"https:////evil.example/staging.example.com/":      "the host must be names",
	"https://staging.example.com./":                    "the host must be names",
	"https://.staging.example.com/":                    "the host must be names",
	"https://staging..example.com/":                    "the host must be names",
	"https://staging%2eexample.com/":                   "the host must be names",
	"https://staging.example.com%2f.evil.example/":     "the host must be names",
	"https://staging.example.com%00.evil.example/":     "the host must be names",
	"https://evil.example;staging.example.com/":        "the host must be names",
	"https://evil.example,staging.example.com/":        "the host must be names",
	"https://*.example.com/":                           "the host must be names",
	"https://staging.example.com:/":                    "the port must be a number",
	"https://staging.example.com:0/":                   "the port must be a number",
	"https://staging.example.com:00443/":               "the port must be a number",
	"https://staging.example.com:+443/":                "the port must be a number",
	"https://staging.example.com:65536/":               "the port must be a number",
	"https://staging.example.com:443:80/":              "the host must be names",
	"https://staging.example.com:*/":                   "the port must be a number",
	"https://[staging.example.com]/":                   "an IP address must be written in full",
	"https://[::1/":                                    "an IP address must be written in full",
	"https://::1/":                                     "the host must be names",
	"https://[::1].staging.example.com/":               "an IP address must be written in full",
	"https://127.1/":                                   "an IP address must be written in full",
	"https://2130706433/":                              "an IP address must be written in full",
	"https://0x7f000001/":                              "an IP address must be written in full",
	"https://staging.example.0x1/":                     "an IP address must be written in full",
	"https://0177.0.0.1/":                              "an IP address must be written in full",
	"https://staging.example.com/..":                   "the path must not hold the steps",
	"https://staging.example.com/a/../b":               "the path must not hold the steps",
	"https://staging.example.com/a/./b":                "the path must not hold the steps",
	"https://staging.example.com/a/..;x=1/b":           "the path must not hold the steps",
	"https://staging.example.com/%2e%2E/b":             "the path must not hold encoded",
	"https://staging.example.com/a%2f..%2fb":           "the path must not hold encoded",
	"https://staging.example.com/a%5c..%5cb":           "the path must not hold encoded",
	"https://staging.example.com/%252e%252e/b":         "the path must not hold encoded",
	"https://staging.example.com/%00":                  "the path must not hold encoded",
	"https://staging.example.com/%0d%0aHost:%20a":      "the path must not hold encoded",
	"https://staging.example.com/%7f":                  "the path must not hold encoded",
	"https://staging.example.com/%":                    "the path must not hold encoded",
	"https://staging.example.com/%4":                   "the path must not hold encoded",
	"https://staging.example.com/%+1":                  "the path must not hold encoded",
	"https://staging.example.com/%u002e":               "the path must not hold encoded",
	"https://user:CANARY@staging.example.com/":         "must not hold a user and password",
	"https://staging.example.com:CANARY/":              "the port must be a number",
	"https://staging.example.com/CANARY/../a%20CANARY": "the path must not hold the steps",
}

func TestAmbiguousPagesAreRefused(t *testing.T) {
	s := solveOf(t, "pages: ['https://*.example.com:*/*', 'https://staging.example.com/*', 'https://127.0.0.1/*', 'https://[::1]/*']")
	for address, want := range hostile {
		err := s.Allows(captcha.Identity{Type: captcha.Turnstile, Sitekey: "a", Pageurl: address})
		if err == nil || !strings.HasPrefix(err.Error(), "pageurl: "+want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// Allows also checks whether pictures and the site key are allowed.
func TestAllowsChecksPicturesAndSiteKeys(t *testing.T) {
	const page = "https://a.example/"
	all, some := solveOf(t, "pages: ['https://a.example/*']"), solveOf(t, "pages: ['https://a.example/*']", "sitekeys: [6Le*x, '*test']", "images: true")
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
			if named != want {
				t.Errorf("%+v: names %q, want %q", tc.id, named, want)
			}
		}
	}
}

// hostsOf returns the hosts that programs with different parsers find in an address.
func hostsOf(address string) map[string]string {
	hosts := make(map[string]string)
	if u, err := url.Parse(address); err == nil {
		hosts["net/url"] = u.Hostname()
	}
	note := func(who string, pattern *regexp.Regexp, address string) {
		if m := pattern.FindStringSubmatch(address); m != nil {
			host, err := url.PathUnescape(m[1])
			if err != nil {
				host = m[1]
			}
			hosts[who] = strings.NewReplacer("。", ".", "．", ".", "｡", ".").Replace(host)
		}
	}
	note("RFC 3986", regexp.MustCompile(`^[^:/?#]+://(?:[^/?#@]*@)?([^/?#:]*)`), address)
	note("the last @", regexp.MustCompile(`(?s)^[^:]+:/*(?:.*@)?([^/?#:]*)`), address)
	note("the first @", regexp.MustCompile(`(?s)^[^:]+:/*(?:[^@]*@)?([^/?#:]*)`), address)
	// Browsers remove white space and treat a backslash as a slash.
	clean := strings.NewReplacer("\t", "", "\n", "", "\r", "", `\`, "/").Replace(strings.TrimSpace(address))
	note("browser", regexp.MustCompile(`(?s)^[^:]+:/*(?:[^/?#]*@)?([^/?#:]*)`), clean)
	return hosts
}

// In an allowed address, all programs find an allowed host and a path that path.Clean does not
// change.
func FuzzAllows(f *testing.F) {
	for address := range hostile {
		f.Add(address)
	}
	f.Add("https://staging.example.com/app/x")
	f.Add("https://a.shop.example:8443/x?y=z")
	allowed := regexp.MustCompile(`^(?i:staging\.example\.com|[a-z0-9_-]+\.shop\.example)$`)
	var s Solve
	for _, pattern := range []string{"https://staging.example.com/app/*", "https://*.shop.example:*/*"} {
		p, rule := splitPage(pattern, true)
		if rule != "" {
			f.Fatal(rule)
		}
		s.Pages = append(s.Pages, p)
	}
	f.Fuzz(func(t *testing.T, address string) {
		err := s.Allows(captcha.Identity{Type: captcha.Turnstile, Sitekey: "a", Pageurl: address})
		if err != nil {
			if len(address) > 15 && strings.Contains(err.Error(), address) {
				t.Errorf("%q is quoted: %v", address, err)
			}
			return
		}
		for who, host := range hostsOf(address) {
			if !allowed.MatchString(host) {
				t.Errorf("%q: to %s the host is %q", address, who, host)
			}
		}
		u, err := url.Parse(address)
		if err != nil || u.User != nil || u.Fragment != "" || strings.ToLower(u.Scheme) != "https" {
			t.Fatalf("%q: %v", address, err)
		}
		// Some servers treat two slashes as one slash. Neither form leads to another path.
		once := regexp.MustCompile(`/+`).ReplaceAllString(u.Path, "/")
		if clean := path.Clean("/" + once); strings.TrimSuffix(once, "/") != strings.TrimSuffix(clean, "/") {
			t.Errorf("%q: the path %q is cleaned to %q", address, u.Path, clean)
		}
		if u.Host == "staging.example.com" && !strings.HasPrefix(u.Path, "/app/") {
			t.Errorf("%q: the path is %q", address, u.Path)
		}
	})
}
