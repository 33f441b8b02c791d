package targets

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

// lookupOf returns references to fixed variables.
func lookupOf(pairs ...string) References {
	return References{Variable: func(name string) (string, bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}}
}

// minimal returns the smallest valid file. The extra lines belong to the target.
func minimal(extra ...string) string {
	lines := ""
	for _, line := range extra {
		lines += "    " + line + "\n"
	}
	return `providers:
  - {name: acme, url: "https://solver.example.com", key: k1}
targets:
  login:
    type: recaptcha_v2
    sitekey: 6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI
    pageurl: https://staging.example.com/login
    owner: qa@example.com
` + lines
}

func mustParse(t *testing.T, text string, refs References) *Set {
	t.Helper()
	set, err := Parse("pools.yaml", []byte(text), refs)
	if err != nil {
		t.Fatalf("%v\nin:\n%s", err, text)
	}
	return set
}

func warnings(s *Set) string {
	var b strings.Builder
	for _, w := range s.Warnings {
		fmt.Fprintln(&b, w)
	}
	return b.String()
}

// testdata/resolved.txt has the Sets of a full file and of the smallest one, with all defaults. It shows
// no secret; those follow here.
func TestParseResolvesEveryKey(t *testing.T) {
	var text strings.Builder
	for _, name := range []string{"testdata/good-full.yaml", "testdata/good-minimal.yaml"} {
		data, err := os.ReadFile(name)
		testkit.NoError(t, err)
		set := mustParse(t, string(data), environment(data))
		fmt.Fprintf(&text, "%s:\n%sserver %+v\nredis %+v\nbudget %+v\ndedup %+v\nhistory %+v\nsolve %+v\nowners %v\n"+
			"currency %q, dead letters in %s\n",
			name, warnings(set), set.Server, set.Redis, set.Budget, set.Dedup, set.History, set.Solve, set.Owners, set.Currency,
			set.DeadLetters)
		for _, p := range set.Providers {
			fmt.Fprintf(&text, "provider %+v\n", p)
		}
		for _, target := range set.Targets {
			fmt.Fprintf(&text, "target %+v\n", target)
			testkit.Equal(t, "the identity of "+target.Name, target.ID, target.Identity.ID())
		}
		if name != "testdata/good-full.yaml" {
			continue
		}
		if got := []captcha.Secret{set.Redis.URL, set.Dedup.URL, set.Providers[0].Key, set.Server.CallbackSecrets[1],
			set.Targets[0].Identity.Proxy}; !slices.Equal(got, []captcha.Secret{
			"rediss://user:secret@a.example.com:6379,rediss://b.example.com:6379",
			"postgresql://poold:secret@db.example.com/poold", "bearer-of-ci-0123", "a secret of last year",
			"user:secret@proxy.example.com:3128",
		}) || set.Server.Keys[0].SHA256 != sha256.Sum256([]byte("bearer-of-ci-0123")) {
			for _, secret := range got {
				t.Error(secret.Reveal())
			}
		}
	}
	testkit.Published(t, "testdata/resolved.txt", text.String())
}

// A missing key gets its value from the target's type, the defaults or the built-in values. The first word of a file's
// name says which value testdata/inherited.txtar shows.
func TestMissingKeysAreInherited(t *testing.T) {
	shown := map[string]func(*Set) any{
		"lifetime": func(s *Set) any { return []time.Duration{s.Targets[0].Lifetime, s.Targets[0].Margin} },
		"budget":   func(s *Set) any { return s.Targets[0].Budget },
		"history":  func(s *Set) any { return s.History },
		"policy":   func(s *Set) any { return []ProvidersPolicy{s.ProvidersPolicy, s.Targets[0].ProvidersPolicy} },
		"warm":     func(s *Set) any { return s.Targets[0].Warm },
		"withheld": func(s *Set) any { return s.Targets[0].Withheld && s.Targets[0].Halted() != "" },
		"price":    func(s *Set) any { return s.Providers[0].Price },
		"service": func(s *Set) any {
			p := s.Providers[0]
			return fmt.Sprint(p.Name, " ", p.Service, " ", p.Protocol, " ", p.URL, " ", p.Balance)
		},
	}
	checkFiles(t, "testdata/inherited.txtar", func(file caseFile) string {
		set := mustParse(t, string(file.data), lookupOf())
		what, _, _ := strings.Cut(file.name, ":")
		text := fmt.Sprintf("%+v\n", shown[what](set))
		return strings.Replace(text, "URL:[redacted]", "URL:"+set.History.URL.Reveal(), 1)
	})
}

// The price of one solve is known for each type, also for unpoolable types.
func TestPricesOfEachType(t *testing.T) {
	prices := Prices{1, 2, 3, 4, 5, 6, 7}
	for i, kind := range captcha.SolvableTypes() {
		if got, want := prices.For(kind), float64(i+1)/1000; got != want || unknownPrices.For(kind) >= 0 {
			t.Errorf("%s: %v, want %v, which is known", kind, got, want)
		}
	}
}

func TestExpandReplacesReferences(t *testing.T) {
	lookup := lookupOf("SET", "value", "EMPTY", "", "BRACES", "${SET}")
	const forms = ": write ${NAME}, ${NAME:-default} or ${file:/path}, or $${ for a literal ${"
	for text, want := range map[string]string{
		"plain": "plain", "": "", "$": "$", "$SET": "$SET", "${SET}": "value", "a${SET}b${SET}c": "avaluebvaluec",
		"${EMPTY}": "", "${EMPTY:-x}": "x", "${UNSET:-x}": "x", "${UNSET:-}": "", "${SET:-x}": "value",
		// references in the value of a variable are not replaced
		"${UNSET:-a:-b}": "a:-b", "${UNSET:-$5}": "$5", "${BRACES}": "${SET}",
		"$${SET}": "${SET}", "$$${SET}": "$${SET}", "$${": "${",
		"${UNSET}": "the environment variable UNSET is not set: set it, or write ${UNSET:-default}",
		"${SET":    "a reference is not closed" + forms, "${}": "invalid reference" + forms, "${1A}": "invalid reference" +
			forms, "${A-b}": "invalid reference" + forms,
		"${A:-${B}}": "references do not nest: the default of one cannot be another",
	} {
		if got, _, problem := lookup.expand(text); cmp.Or(problem, got) != want {
			t.Errorf("%q: %q, %q; want %q", text, got, problem, want)
		}
	}
}
