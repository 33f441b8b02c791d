package targets

import (
	"fmt"
	"os"
	"slices"
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
	text, err := os.ReadFile("testdata/patterns.txt") // a pattern, addresses that it allows, and others
	testkit.NoError(t, err)
	for row := range slices.Chunk(strings.Split(strings.TrimSpace(string(text)), "\n"), 3) {
		s := solveOf(t, "pages: ['"+row[0]+"']")
		for i, list := range row[1:] {
			for address := range strings.FieldsSeq(list) {
				err := s.Allows(captcha.Identity{Type: captcha.HCaptcha, Sitekey: "a", Pageurl: address})
				testkit.Equal(t, row[0]+" allows "+address, err == nil, i == 0)
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
	s := solveOf(t, "pages: ['https://*.example.com:*/*', 'https://staging.example.com/*', 'https://127.0.0.1/*', "+
		"'https://[::1]/*']")
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
